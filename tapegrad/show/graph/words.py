"""Words: operations as text in a picture, in mathematical notation where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import Accumulator, Scatter
from tapegrad.numbers.formatting import brief, plain
from tapegrad.show.line import short, shorten, tidy, untraced
from tapegrad.tape.tape import Operation, has_value

INFIX = {"add": "+", "accumulate": "+", "subtract": "−", "multiply": "·", "divide": "/", "matmul": "@",
         "floor_divide": "//", "remainder": "%",
         "equal": "=", "not_equal": "≠", "less": "<", "less_equal": "≤", "greater": ">", "greater_equal": "≥",
         "logical_and": "∧", "logical_or": "∨",
         "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
PREFIX = {"negative": "−", "positive": "+", "logical_not": "¬", "bitwise_invert": "~", "sqrt": "√"}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Name = Callable[[Operation], str]


def expression(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: Name) -> str:
    """Return a call as text.

    >>> from tapegrad.ops import multiply, pow
    >>> expression(multiply, (2, -0.5), {}, str), expression(pow, (3.0, 2), {}, str)
    ('2 · (−0.5)', '3²')
    """
    op = brief(fn)
    parts = [argument(arg, name) for arg in args]
    named = [f"{key}={argument(arg, name)}" for key, arg in kwargs.items()]
    if op == "pack":
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if not named and len(args) == 2:
        if op in INFIX:
            return f"{_bracket(parts[0])} {INFIX[op]} {_bracket(parts[1])}"
        if op == "pow":
            exponent = plain(args[1])
            if type(exponent) is int:
                return _bracket(parts[0]) + str(exponent).translate(RAISED)
            return f"{_bracket(parts[0])} ^ {_bracket(parts[1])}"
    if not named and len(args) == 1 and op in PREFIX:
        return PREFIX[op] + _bracket(parts[0])
    if op == "getitem" and len(parts) > 1:
        return f"{parts[0]}[{', '.join(parts[1:])}]"
    if op == "permute_dims" and list(kwargs.get("axes") or ()) == [1, 0]:
        return f"{_bracket(parts[0])}ᵀ"
    return f"{op}({', '.join(parts + named)})"


def argument(arg: Any, name: Name) -> str:
    """Return an argument as text: an operation by its name, anything else by its value."""
    if isinstance(arg, Operation):
        return name(arg)
    if type(untraced(arg)) is tuple and any(isinstance(part, Operation) for part in arg):
        return f"({', '.join(argument(part, name) for part in arg)})"
    return constant(arg)


def constant(value: Any) -> str:
    """Return a constant value as text; an array of equal numbers as one of them.

    >>> import numpy as np
    >>> constant(np.ones(3)), constant(slice(1, None))
    ('1', '1:')
    """
    value = untraced(value)
    if (isinstance(value, np.ndarray) and value.dtype.kind in "fiuc" and 0 < value.size <= 1000
        and (value == value.flat[0]).all()):
        value = value.flat[0]
    return number(value) or tidy(short(value, 24))


def number(value: Any, digits: int = 6) -> str:
    """Return a number as text in a few digits; "" for anything else.

    >>> number(0.18181818181818182), number(-3), number([1])
    ('0.181818', '−3', '')
    """
    value = plain(value)
    shape = getattr(value, "shape", None)
    if shape == () and callable(getattr(value, "item", None)):
        value = value.item()
    if type(value) is bool:
        return str(value)
    if type(value) not in (int, float, complex) or (type(value) is int and value.bit_length() > 64):
        return ""
    text = str(value) if type(value) is int else f"{value:.{digits}g}".replace("e+0", "e").replace("e-0", "e-")
    return text.replace("-", "−")


def value_text(op: Operation) -> str:
    """Return an operation's value as text: the number, or the type of an array."""
    if not has_value(op) or type(op.val) in (Scatter, Accumulator):  # their values are final only after `conform`
        return ""
    return number(op.val) or op.type


def derivative(of: str) -> str:
    """Return the name of a variable's cotangent.

    >>> derivative("a"), derivative("%4"), derivative("w['b']")
    ('da', 'd%4', "d(w['b'])")
    """
    return f"d{of}" if of.isidentifier() or of.startswith("%") else f"d({shorten(of, 20, '…')})"


def _bracket(part: str) -> str:
    """Return an operand, in brackets if it would be misread without them."""
    return f"({part})" if part.startswith("−") or (" " in part and part[0] not in "[(") else part
