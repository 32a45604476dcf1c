"""cse: what is computed twice is computed once (value numbering)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.tensors import is_tensor
from tapegrad.numbers.view_path import Step
from tapegrad.ops import add, multiply
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Operation, Tape
from tapegrad.transforms.walk import Walk, pure

SMALL = 4096  # bytes up to which constant arrays are compared by content


def cse(tape: Tape) -> Tape:
    """Return a tape on which calls of one op with the same arguments, and guards of one fact, are one.

    Numbers are the same if their type and every bit is: 1, 1.0 and True differ, and so do 0.0 and -0.0. Sums and
    products of numbers and arrays have no order. Random draws and calls of a user's functions stay as many as they are.
    """
    same, found = _same(tape)
    if not found:
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        first = same[op.id]
        if first is op:
            walk.keep(op)
        else:
            walk.stand_in(op, walk.at[first.id])
    return walk.done()


def _same(tape: Tape) -> tuple[list[Operation], int]:
    """Return, by position, the first operation of the same value, and how many are not the first."""
    same: list[Any] = [None] * (len(tape.ops) + 1)
    seen: dict[Any, Operation] = {}
    found = 0
    for op in tape.ops:
        key = _key(op, same)
        known = op if key is None else seen.setdefault(key, op)
        same[op.id] = known
        found += known is not op
    return same, found


def _key(op: Operation, same: list[Operation]) -> Any:
    """Return what two operations of one value have in common, None for one that stays alone."""
    kind = type(op)
    if kind is Call:
        fn = op.fn
        if not pure(fn) or fn.memory.blank:
            return None
        args = [same[arg.id] if isinstance(arg, Operation) else number(arg, same) for arg in op.args]
        if (fn is add or fn is multiply) and _later(*args) and _commutes(op):
            args.reverse()
        kwargs = op.kwargs
        if type(op.val) is not np.ndarray and not (y := op.spec).is_numpy:  # math.sin(x) is one, np.sin(x) is not
            args.append(y.type)
        if kwargs:
            return (fn, *args, *((name, number(value, same)) for name, value in sorted(kwargs.items())))
        return (fn, *args)
    if kind is Guard:
        return ("guard", op.fact, number(op.args[0], same), number(op.expected, same))  # type: ignore[attr-defined]
    return ("constant", number(op.val, same)) if kind is Constant else None


def number(x: Any, same: Sequence[Operation] = ()) -> Any:
    """Return a key for an argument, equal only for what is the same to the last bit; what is not known is the same as
    itself alone.
    """
    if isinstance(x, Operation):
        return same[x.id]
    kind = type(x)
    if kind is float:
        return (kind, x) if x and x == x else (kind, struct.pack("d", x))  # two zeros are equal, and nan is not
    if kind in _PLAIN:
        return (kind, x)
    if kind is complex:
        return (kind, repr(x))
    if kind is slice:
        return (kind, number(x.start, same), number(x.stop, same), number(x.step, same))
    if kind is tuple or kind is list:
        return (kind, *[number(part, same) for part in x])
    if isinstance(x, (np.ndarray, np.generic)):
        if x.nbytes <= SMALL and x.dtype != object:
            return (kind, str(x.dtype), x.shape, getattr(x, "strides", ()), x.tobytes())
        return ("id", id(x))
    if kind is Step:
        return (kind, id(x.op), number(x.args, same), number(tuple(sorted(x.kwargs.items())), same))
    if isinstance(x, (np.dtype, type)) or (kind.__module__ == "torch" and not is_tensor(x)):  # dtypes, devices
        return ("type", str(x))
    return ("id", id(x))  # it stays alive while the tape does


_PLAIN = frozenset([int, bool, str, type(None), type(Ellipsis)])
_REAL = frozenset([int, float, bool])


def _later(a: Any, b: Any) -> bool:
    """True if two operands stand in another order than in that of the tape, constants last."""
    return isinstance(b, Operation) and not (isinstance(a, Operation) and a.id <= b.id)


def _commutes(op: Operation) -> bool:
    """True for a sum or product of real numbers: that of complex ones may be rounded otherwise in the other order."""
    for arg in op.args:
        x = spec_of(arg)
        if not (x.kind in "biuf" if x.is_numpy else x.type in _REAL):
            return False
    return True
