"""local: the derivative of one operation, in textbook notation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.numbers.formatting import brief
from tapegrad.show.graph.words import RAISED, derivative

# By op and argument: the term with its differential. {a} and {b} are the arguments, {y} the value. An op without an
# entry is linear, or has a rule that needs more than a line.
TERMS: dict[str, tuple[str, ...]] = {
    "add": ("{da}", "{db}"), "subtract": ("{da}", "−{db}"), "multiply": ("{da}·{b}", "{a}·{db}"),
    "divide": ("{da}/{b}", "−{db}·{a}/{b}²"), "pow": ("{b}·{a}^({b}−1)·{da}", "{y}·log({a})·{db}"),
    "negative": ("−{da}",), "positive": ("{da}",), "square": ("2·{a}·{da}",), "sqrt": ("{da}/(2·{y})",),
    "reciprocal": ("−{da}·{y}²",), "abs": ("sign({a})·{da}",),
    "exp": ("{y}·{da}",), "expm1": ("({y} + 1)·{da}",), "log": ("{da}/{a}",), "log1p": ("{da}/(1 + {a})",),
    "sin": ("cos({a})·{da}",), "cos": ("−sin({a})·{da}",), "tan": ("(1 + {y}²)·{da}",),
    "sinh": ("cosh({a})·{da}",), "cosh": ("sinh({a})·{da}",), "tanh": ("(1 − {y}²)·{da}",),
    "asin": ("{da}/√(1 − {a}²)",), "acos": ("−{da}/√(1 − {a}²)",), "atan": ("{da}/(1 + {a}²)",),
    "hypot": ("{a}/{y}·{da}", "{b}/{y}·{db}"), "atan2": ("{b}·{da}/({a}² + {b}²)", "−{a}·{db}/({a}² + {b}²)"),
    "maximum": ("{da} where {a} > {b}", "{db} where {b} > {a}"),
    "minimum": ("{da} where {a} < {b}", "{db} where {b} < {a}"),
    "matmul": ("{da} @ {b}", "{a} @ {db}"), "logaddexp": ("exp({a} − {y})·{da}", "exp({b} − {y})·{db}"),
    "sum": ("sum({da})",), "mean": ("mean({da})",),
}


def local_derivative(fn: Any, names: Sequence[str], varies: Sequence[bool], y: str) -> str:
    """Return the differential of a call as text, by the arguments that vary; "" if it needs more than a line.

    >>> from tapegrad.ops import divide
    >>> local_derivative(divide, ["a", "b"], [True, True], "y")
    'da/b − db·a/b²'
    """
    terms = TERMS.get(brief(fn), ())
    if brief(fn) == "pow" and names[1].isdigit():
        lower = int(names[1]) - 1
        terms = (f"{{b}}·{{a}}{'' if lower == 1 else str(lower).translate(RAISED)}·{{da}}",)
    if len(terms) < len(names) and any(varies[len(terms):]):
        return ""
    given = {"y": y, "a": names[0], "b": names[-1], "da": derivative(names[0]), "db": derivative(names[-1])}
    found = [term.format(**given) for term, wanted in zip(terms, varies) if wanted]
    return " + ".join(found).replace("+ −", "− ")
