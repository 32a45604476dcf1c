"""python_errors: which functions of Python's numbers raise where an array or a tensor gets nan or inf."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.registry import OPS, Op
from tapegrad.tape.tape import Call

_OPERATORS: dict[str, Callable[..., Any]] = {"divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
                                             "pow": operator.pow, "float_power": math.pow, "ldexp": math.ldexp,
                                             "exp2": lambda x: math.pow(2.0, x)}
_BY_OP = {OPS[name]: fn for name, fn in _OPERATORS.items()}


def raising(op: Call, fn: Any, recorded: Any) -> Callable[..., Any] | None:
    """Return the function of Python's numbers that a call of the program was recorded from, if that may raise; pullbacks get nan or inf."""
    if type(recorded) not in (float, complex) or type(fn) is not Op or fn.rr is not None or op.note.startswith("pullback"):
        return None
    return fn.scalar or _BY_OP.get(fn)


def as_recorded(fn: Callable[..., Any], args: tuple[Any, ...], y: Any) -> None:
    """Raise what `fn` raises of numbers for which tensors stand."""
    if not y.isfinite():
        fn(*[x.item() if is_tensor(x) else x for x in args])
