"""jumps: where a program jumps by what it is integrated over, and the jump moves with a parameter, a term is missing.

The gradient of the integral has one that the integral of the gradient has not, and nothing on a tape tells how large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.rules.activity import activity
from tapegrad.rules.op import Op
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Call, Guard, Operation, Tape, value_of

_VALUES = frozenset(
    ["bool", "int", "index", "float", "floor", "ceil", "trunc", "round", "hash"]
)  # facts that steer a program by numbers
_JUMPING = (ops.remainder, ops.fmod, ops.sign, ops.copysign, ops.heaviside)  # though they have derivatives


_ALONE = (ops.stop_gradient, ops.equal, ops.not_equal)  # no jumps, or those at single points, which no integral sees
_CUT = {ops.atan2: 1, ops.angle: 0, ops.log: 0, ops.sqrt: 0, ops.pow: 0}
"""Ops that jump where an argument in some place, or its real part, is negative: across a branch cut."""


def check_jumps(name: str, tape: Tape, *groups: Collection[int], try_: str) -> None:
    """Refuse a tape that compares or rounds what depends on inputs in each group of places; abs
    and max only have kinks.
    """
    depends = [activity(tape, places) for places in groups]
    for op, arguments in _steering(tape):
        if all(any(found[arg.id] for arg in arguments) for found in depends):
            raise refused(
                name,
                f"what it integrates may jump: {op!r} depends on a number that the gradient is asked for, and where it "
                "jumps, the integral of the gradient is not the gradient of the integral",
                try_,
            )


def _steering(tape: Tape) -> Iterator[tuple[Any, list[Operation]]]:
    for op in tape.ops:
        if isinstance(op, Guard):
            steers = op.fact in _VALUES
        else:
            steers = (
                type(op) is Call
                and type(op.fn) is Op
                and op.fn not in _ALONE
                and (not op.fn.differentiable or op.fn in _JUMPING or (op.fn in _CUT and _at_cut(op)))
            )
        if steers:
            yield op, [arg for arg in op.args if isinstance(arg, Operation)]


def _at_cut(op: Call) -> bool:
    """True where the sign of another part decides on which side of a branch cut an op is; a program that is traced is
    guarded, and asks again elsewhere.
    """
    x = value_of(op.args[_CUT[op.fn]])
    if op.fn is not ops.atan2 and op.fn is not ops.angle and not ops.is_complex(x):
        return False
    if op.fn is ops.pow and not isinstance(op.args[1], Operation) and np.all(np.equal(np.round(op.args[1]), op.args[1])):
        return False
    return bool(np.any(np.real(x) < 0))
