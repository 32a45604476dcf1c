"""control_dependence: finds recorded operations whose values decide control flow, or that are discontinuous."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.numbers.formatting import plain
from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call, Guard, Operation, value_of

_VALUES = frozenset(
    ["bool", "int", "index", "float", "complex", "floor", "ceil", "trunc", "round", "hash"]
)  # guard facts that depend on values
_JUMPING = (ops.remainder, ops.fmod, ops.sign, ops.copysign, ops.heaviside)  # discontinuous ops that have derivatives


_ALONE = (ops.stop_gradient, ops.equal, ops.not_equal)  # no jumps, or jumps at isolated points, which no integral sees
_MADE = (ops.empty_like, ops.zeros_like, ops.ones_like, ops.full_like)  # independent of their arguments' values
_CUT = {ops.atan2: 1, ops.angle: 0, ops.log: 0, ops.sqrt: 0, ops.pow: 0}
"""Ops with a branch cut where the argument at this position, or its real part, is negative."""

_POLES = {ops.divide: 1, ops.reciprocal: 0, ops.pow: 0, ops.float_power: 0, ops.tan: 0, ops.abs: 0}
"""Ops with poles where the argument at this position passes 0, or pi/2 for tan; `abs` where it is a divisor."""

_KINKS = (ops.maximum, ops.minimum, ops.fmax, ops.fmin, ops.abs)
"""Ops with kinks where their arguments are equal, or the only one is 0: their derivatives jump."""


def steering(operations: Iterable[Operation], poles: bool = False) -> Iterator[tuple[Any, list[Operation]]]:
    """Yield each value guard and each discontinuous operation with its operands; with `poles` also operations that have
    poles or kinks.
    """
    found: dict[Operation, Operation] = dict(poles_of(operations := list(operations))) if poles else {}
    for op in operations:
        if op in found:
            yield op, [found[op]]
            continue
        if isinstance(op, Guard):
            steers = op.fact in _VALUES
        else:
            steers = (
                type(op) is Call
                and type(op.fn) is Op
                and op.fn not in _ALONE
                and op.fn not in _MADE
                and (not op.fn.differentiable or op.fn in _JUMPING or (op.fn in _CUT and _at_cut(op))
                     or (poles and op.fn in _KINKS and not ops.is_complex(value_of(op.args[0]))))
            )
        if steers:
            yield op, [arg for arg in op.args if isinstance(arg, Operation)]


def side(op: Any, *values: Any) -> Any:
    """Return the branch that a discontinuous operation takes at these argument values: constant between its jumps."""
    if isinstance(op, Guard):
        return op.expected
    if op.fn in _POLES and not ops.is_complex(x := values[_POLES[op.fn]]):
        # by the tangent as computed: its poles lie at the floats next to multiples of pi/2
        return ops.floor((x - ops.atan(ops.tan(x))) / math.pi + 0.5) if op.fn is ops.tan else x < 0
    if op.fn in _KINKS:
        return values[0] < values[1]
    if op.fn is ops.remainder or op.fn is ops.fmod:
        return ops.floor_divide(*values)
    if op.fn in _CUT:
        return ops.signbit(values[0] if op.fn is ops.atan2 else np.imag(values[0]))
    if op.fn in _JUMPING:
        return ops.sign(values[op.fn is ops.copysign])
    return value_of(op)


def poles_of(operations: Iterable[Operation]) -> Iterator[tuple[Call, Operation]]:
    """Yield (operation, argument) for real quotients, powers and tangents whose sign differs on each side of a pole."""
    divisors: set[Operation] = set()
    for op in operations:
        if type(op) is Call and type(op.fn) is Op and op.fn in _POLES and op.fn is not ops.abs:
            arg = op.args[_POLES[op.fn]]
            if isinstance(arg, Operation) and not ops.is_complex(value_of(arg)):
                if (type(arg) is Call and arg.fn is ops.abs and isinstance(arg.args[0], Operation)
                    and arg not in divisors and not ops.is_complex(value_of(arg.args[0]))):
                    divisors.add(arg)
                    yield arg, arg.args[0]
                power = op.args[1] if op.fn is ops.pow or op.fn is ops.float_power else -1
                if type(power) not in (int, float) or (power < 0 and power % 2 == 1):
                    yield op, arg


def _at_cut(op: Call) -> bool:
    """Return whether the sign of the imaginary part (of y, for atan2) selects the side of a branch cut: True if any
    real part is negative. If the argument's value is traced this is guarded, so a replay tests it again.
    """
    x = value_of(op.args[_CUT[op.fn]])
    if op.fn is not ops.atan2 and op.fn is not ops.angle and not ops.is_complex(x):
        return False
    if (op.fn is ops.pow and not isinstance(op.args[1], Operation)
        and np.all(np.equal(np.round(op.args[1]), op.args[1]))):
        return False
    return bool(np.any(np.real(x) < 0))


def sides(operations: Iterable[Operation]) -> dict[int, Any]:
    """Return the branch of each discontinuous operation, by its position. The positive side of a pole, the usual one,
    is left out: where a divisor is a plain number, as a slope's first arguments may be, there is no pole to yield.
    """
    found = {}
    for i, (op, _) in enumerate(steering(operations, poles=True)):
        val = side(op, *map(value_of, op.args))
        if type(op) is Guard or op.fn not in _POLES or (val.any() if hasattr(val, "any") else val):
            found[i] = val
    return found


def agree(here: Any, there: Any) -> bool:
    """Return whether two runs took the same branches, given as dicts by position or as lists."""
    if isinstance(here, dict):
        return here.keys() == there.keys() and all(same_side(val, there[i]) for i, val in here.items())
    return len(here) == len(there) and all(map(same_side, here, there))


def same_side(x: Any, y: Any) -> bool:
    """Return whether two branch values are equal."""
    x, y = plain(x), plain(y)
    return x is y or bool(np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind in "fc"))
