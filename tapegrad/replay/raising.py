"""raising: the calls that may raise for other values, as Python's functions do where an array or tensor yields nan."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from typing import Any

from tapegrad import ops
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.loop import is_loop
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.user import rrule
from tapegrad.tape.spec import Spec
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Call, Constant, Guard, Operation, Tape, operands

# on Python numbers these raise; on NumPy's they yield nan, inf or 0
_ARITHMETIC = frozenset([ops.divide, ops.floor_divide, ops.remainder, ops.pow, ops.bitwise_left_shift,
                         ops.bitwise_right_shift])
_INDEX = {ops.getitem: 1, ops.getitem_masked: 1, ops.setitem: 2}  # the position of the index among the arguments

_OPERATORS: dict[str, Callable[..., Any]] = {"divide": operator.truediv, "floor_divide": operator.floordiv,
                                             "remainder": operator.mod,
                                             "pow": operator.pow, "float_power": math.pow, "ldexp": math.ldexp,
                                             "exp2": lambda x: math.pow(2.0, x)}
_BY_OP = {OPS[name]: fn for name, fn in _OPERATORS.items()}


def may_end_replay(op: Operation, varying: bytearray | None = None, steps: Collection[Operation] = ()) -> bool:
    """True for an operation that may end a replay (a guard, a call that may raise, a loop with one of these), and so is
    kept even if its value is unused.

    `varying` marks by position the operations whose shape depends on values; `steps` are the inputs of a loop's body
    that are the same in every replay. Calls that only the reverse sweep makes do not count.
    """
    if isinstance(op, Guard):
        return True
    if carries(op):
        steps = op.fn.parts()[0] if is_loop(op) else ()
        return any(may_end_replay(inner, None, steps) for inner in op.fn.body.ops)
    if type(op.fn) is not Op or op.purpose == "pullback":
        return False
    if may_raise(op) or (varying is not None and varying[op.id]):
        return True
    if op.fn in _INDEX:
        parts = [part for part in op.args[_INDEX[op.fn]:] if isinstance(part, Operation) and type(part) is not Constant]
        return any(part not in steps and part.spec.kind != "b" for part in parts)
    return op.fn is ops.pow and op.spec.kind in "iu"  # negative integer powers of integers raise


def may_raise(op: Operation) -> bool:
    """True for a call that may raise for other values, including calls of a sweep that runs as straight-line code."""
    if carries(op):
        return any(map(may_raise, op.fn.body.ops))
    return type(op.fn) is Op and (op.fn.effects.raises or (
        (op.fn in _ARITHMETIC or op.fn.scalar is not None) and _is_python(op.spec)))


def varying_shapes(tape: Tape) -> bytearray | None:
    """Return, by position, which values derive from an array whose shape depends on values; None if there is none."""
    if not any(getattr(op.fn, "dynamic", False) for op in tape.ops):
        return None
    varying, dynamic = bytearray(len(tape.ops) + 1), bytearray(len(tape.ops) + 1)
    for op in tape.ops:
        if type(op) is Call:
            varying[op.id] = any(dynamic[arg.id] for arg in operands(op))
            dynamic[op.id] = varying[op.id] or getattr(op.fn, "dynamic", False)
    return varying


def _is_python(y: Spec) -> bool:
    return y.is_python or (y.type is tuple and any(part.is_python for part in y.parts))


def spec_recorded(op: Call) -> Spec:
    """Return the spec of a call's recorded value; for a triple, without its pullback."""
    y = op.spec
    return y.parts[0] if op.fn is rrule and y.parts else y


def raising(op: Call, fn: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the Python function that a call was recorded from if it may raise; None for pullbacks (nan or inf)."""
    if (spec_recorded(op).type not in (float, complex) or type(fn) is not Op or type(fn.rule) is Rrule
        or op.purpose == "pullback"):
        return None
    return fn.scalar or _BY_OP.get(fn)


def as_recorded(fn: Callable[..., Any], args: tuple[Any, ...], y: Any) -> None:
    """Raise the error that `fn` raises for the numbers that the tensors stand for, if any."""
    if not y.isfinite():
        fn(*[x.item() if is_tensor(x) else x for x in args])
