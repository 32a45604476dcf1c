"""cse: what is computed twice is computed once (value numbering)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tapegrad.ops import add, multiply
from tapegrad.passes.walk import Walk, pure
from tapegrad.tape import Call, Constant, Guard, Operation, Tape

SMALL = 4096  # bytes up to which constant arrays are compared by content


def cse(tape: Tape) -> Tape:
    """Return a tape on which calls of one op with the same arguments, and guards of one fact, are one.

    Numbers are the same if their type and every bit is: 1, 1.0 and True differ, and so do 0.0 and -0.0. Sums and products
    of numbers and arrays have no order. Random draws and calls of a user's functions stay as many as they are.
    """
    walk = Walk(tape)
    seen: dict[Any, Operation] = {}
    for op in tape.ops:
        key = _key(op, walk)
        known = seen.get(key) if key is not None else None
        if known is not None:
            walk.at[op] = known
        else:
            made = walk.keep(op)
            if key is not None:
                seen[key] = made
    return walk.done()


def _key(op: Operation, walk: Walk) -> Any:
    """Return what two operations of one value have in common, None for one that stays alone."""
    kind = type(op)
    if kind is Call:
        fn = op.fn  # type: ignore[attr-defined]
        if not pure(fn) or fn.owns:
            return None
        args = [number(arg, walk) for arg in op.args]
        if (fn is add or fn is multiply) and _commutes(op):
            args.sort(key=repr)
        kwargs = op.kwargs  # type: ignore[attr-defined]
        return (fn, *args, *((name, number(value, walk)) for name, value in sorted(kwargs.items())))
    if kind is Guard:
        return ("guard", op.fact, number(op.args[0], walk), number(op.expected, walk))  # type: ignore[attr-defined]
    return ("constant", number(op.val, walk)) if kind is Constant else None


def number(x: Any, walk: Walk) -> Any:
    """Return a key for an argument, equal only for what is the same to the last bit."""
    if isinstance(x, Operation):
        x = walk.at[x]
        if isinstance(x, Operation):
            return ("%", x.id)
    kind = type(x)
    if kind is float:
        return ("float", struct.pack("d", x))
    if kind in (int, bool, str, type(None)) or x is Ellipsis:
        return (kind.__name__, x)
    if kind is slice:
        return ("slice", number(x.start, walk), number(x.stop, walk), number(x.step, walk))
    if kind is tuple or kind is list:
        return (kind.__name__, *[number(part, walk) for part in x])
    if isinstance(x, (np.ndarray, np.generic)):
        if x.nbytes <= SMALL and x.dtype != object:
            return (kind.__name__, str(x.dtype), x.shape, getattr(x, "strides", ()), x.tobytes())
        return ("id", id(x))
    if isinstance(x, (np.dtype, type)):
        return ("type", str(x))
    return ("id", id(x))  # it stays alive while the tape does


def _commutes(op: Operation) -> bool:
    """True for a sum or product of real numbers: that of complex ones may be rounded otherwise in the other order."""
    vals = [arg.val if isinstance(arg, Operation) else arg for arg in op.args]
    return all(val.dtype.kind in "biuf" if isinstance(val, (np.ndarray, np.generic)) else isinstance(val, (int, float)) for val in vals)
