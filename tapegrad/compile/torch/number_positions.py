"""number_positions: finds the positions in recorded calls of Python numbers that are inputs of the program."""

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
"""Ops that pass any Python number to torch unchanged."""


NUMBERS = (*PYTHON, np.number)


def is_array_of_numbers(op: Call, fn: Any, given: list[Any]) -> bool:
    """Return whether a call makes an array from numbers that do not determine its shape, so that the device can."""
    return (bool(op.spec.shape) and type(fn) is Op and getattr(fn.lower.get("torch"), "is_on_host", "") != "all"
            and any(isinstance(arg, Operation) and isinstance(x, NUMBERS) for x, arg in zip(given, op.args))
            and spec_of_call(fn, op.args, op.kwargs) is not NOTHING)


LOST = Operation()  # marks an argument that depends on a number without being that number


def other_than(x: Any) -> Any:
    """Return another number of the same type."""
    if type(x) is bool:
        return not x
    return x + 1 if type(x) is int else x / 3 + 0.7 if cmath.isfinite(x) else type(x)(0.7)


def placed(first: list[Seen], again: list[Seen], numbers: list[tuple[Any, Any, Operation]]) -> list[Seen] | None:
    """Return the first of two recordings with references for numbers, at the positions where the first has a number's
    value and the second its replacement. Return None if the recordings differ otherwise.

    `numbers` has for each number the value in the first recording, the one in the second, and the reference.
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
