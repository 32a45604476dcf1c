"""number_places: where among the recorded calls of an operation a Python number goes that may be another in another
call of the program.
"""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

from tapegrad.compile.torch.kernel import mapped, values_in
from tapegrad.compile.torch.recorder import Seen
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.types import spec_of_call
from tapegrad.tape.spec import NOTHING
from tapegrad.tape.tape import Call, Operation

PASSING = frozenset(OPS[name] for name in ("add", "subtract", "multiply", "divide", "pow", "less", "less_equal",
                                           "greater", "greater_equal",
                                           "equal", "not_equal", "maximum", "minimum", "where"))
"""Ops that pass a Python number on to torch as it is, whatever number it is."""


NUMBERS = (*PYTHON, np.number)


def is_array_of_numbers(op: Call, fn: Any, given: list[Any]) -> bool:
    """True for a call that makes an array of numbers alone, none of which is a length: the device makes it."""
    return (bool(op.spec.shape) and type(fn) is Op and getattr(fn.lower.get("torch"), "is_on_host", "") != "all"
            and any(isinstance(arg, Operation) and isinstance(x, NUMBERS) for x, arg in zip(given, op.args))
            and spec_of_call(fn, op.args, op.kwargs) is not NOTHING)


LOST = Operation()  # stands for what depends on a number otherwise than by being that number


def other_than(x: Any) -> Any:
    """Return another number of a type."""
    if type(x) is bool:
        return not x
    return x + 1 if type(x) is int else x / 3 + 0.7 if cmath.isfinite(x) else type(x)(0.7)


def placed(first: list[Seen], again: list[Seen], numbers: list[tuple[Any, Any, Operation]]) -> list[Seen] | None:
    """Return the first of two recordings with references for numbers: where the first has one of them and the second
    the other that was given in its place. Return None where they differ otherwise.

    Of each number there are its value in the first recording, that in the second, and what stands for it.
    """
    if [seen.fn for seen in again] != [seen.fn for seen in first]:
        return None

    def leaf(x: Any, y: Any) -> Any:
        if is_tensor(x) or (type(x) is type(y) and (x == y or x != x)):
            return x
        return next((ref for a, b, ref in numbers if (x, y) == (a, b)), LOST)
    made = [seen.with_args(mapped(seen.args, leaf, other.args), mapped(seen.kwargs, leaf, other.kwargs))
            for seen, other in zip(first, again)]
    return None if any(x is LOST for seen in made for x in values_in((seen.args, seen.kwargs))) else made
