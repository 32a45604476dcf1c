"""python_errors: which functions of Python's numbers raise where an array or a tensor gets nan or inf."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.user import rrule
from tapegrad.tape.spec import Spec
from tapegrad.tape.tape import Call

_OPERATORS: dict[str, Callable[..., Any]] = {"divide": operator.truediv, "floor_divide": operator.floordiv,
                                             "remainder": operator.mod,
                                             "pow": operator.pow, "float_power": math.pow, "ldexp": math.ldexp,
                                             "exp2": lambda x: math.pow(2.0, x)}
_BY_OP = {OPS[name]: fn for name, fn in _OPERATORS.items()}


def spec_recorded(op: Call) -> Spec:
    """Return the spec of what a call gave while recording, that of a triple without its pullback."""
    y = op.spec
    return y.parts[0] if op.fn is rrule and y.parts else y


def raising(op: Call, fn: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the function of Python's numbers that a call of the program was recorded from, if that may raise;
    pullbacks get nan or inf.
    """
    if (spec_recorded(op).type not in (float, complex) or type(fn) is not Op or type(fn.rule) is Rrule
        or op.purpose == "pullback"):
        return None
    return fn.scalar or _BY_OP.get(fn)


def as_recorded(fn: Callable[..., Any], args: tuple[Any, ...], y: Any) -> None:
    """Raise what `fn` raises of numbers for which tensors stand."""
    if not y.isfinite():
        fn(*[x.item() if is_tensor(x) else x for x in args])
