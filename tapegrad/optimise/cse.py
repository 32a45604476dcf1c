"""cse: common subexpression elimination by value numbering."""

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
    """Return a tape on which calls of one op with equal arguments, and guards of one fact, are merged.

    Numbers are equal if their types and bits are: 1, 1.0 and True differ, and so do 0.0 and -0.0. Real sums and
    products commute. Random draws and calls of user functions are never merged.
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
    """Return, by position, the first operation with the same value, and the number of duplicates."""
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
    """Return a key that is equal for operations of equal value, None for an operation that is never merged."""
    kind = type(op)
    if kind is Call:
        fn = op.fn
        if not pure(fn) or fn.memory.blank:
            return None
        args = [same[arg.id] if isinstance(arg, Operation) else number(arg, same) for arg in op.args]
        if (fn is add or fn is multiply) and _later(*args) and _commutes(op):
            args.reverse()
        kwargs = op.kwargs
        if type(op.val) is not np.ndarray and not (y := op.spec).is_numpy:  # math.sin(x) is a float, np.sin(x) is not
            args.append(y.type)
        if kwargs:
            return (fn, *args, *((name, number(value, same)) for name, value in sorted(kwargs.items())))
        return (fn, *args)
    if kind is Guard:
        return ("guard", op.fact, number(op.args[0], same), number(op.expected, same))  # type: ignore[attr-defined]
    return ("constant", number(op.val, same)) if kind is Constant else None


def number(x: Any, same: Sequence[Operation] = ()) -> Any:
    """Return a key for an argument, equal only for arguments that are equal to the last bit; an object of an unknown
    type equals only itself.
    """
    if isinstance(x, Operation):
        return same[x.id]
    kind = type(x)
    if kind is float:
        return (kind, x) if x and x == x else (kind, struct.pack("d", x))  # 0.0 == -0.0, nan != nan
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
    return ("id", id(x))  # not reused: the tape keeps the object alive


_PLAIN = frozenset([int, bool, str, type(None), type(Ellipsis)])
_REAL = frozenset([int, float, bool])


def _later(a: Any, b: Any) -> bool:
    """Return whether two operands are out of the tape's order, in which constants come last."""
    return isinstance(b, Operation) and not (isinstance(a, Operation) and a.id <= b.id)


def _commutes(op: Operation) -> bool:
    """Return whether a sum or product is of real numbers; complex ones may round differently in the other order."""
    for arg in op.args:
        x = spec_of(arg)
        if not (x.kind in "biuf" if x.is_numpy else x.type in _REAL):
            return False
    return True
