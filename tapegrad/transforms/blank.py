"""blank: large values that are dropped, of which type, shape and layout stay: all that passes and the writer look at."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tapegrad.ops import pack, setitem
from tapegrad.rules.registry import Op
from tapegrad.tape.tape import Call, Operation, Tape, Unknown, operands
from tapegrad.trace.value_retention import LARGE, Held

_blanks: WeakValueDictionary[Any, np.ndarray[Any, Any]] = WeakValueDictionary()


def blank(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the read-only array of zeros that lies as `x` does, the same one for all of a kind.

    It takes no memory as long as nobody writes to it: zeros that were never touched are pages that the system has not made yet.
    """
    known = _blanks.get(_kind(x))
    if known is None:
        below = sum(step * (n - 1) for n, step in zip(x.shape, x.strides) if step < 0 and n)
        above = sum(step * (n - 1) for n, step in zip(x.shape, x.strides) if step > 0 and n)
        memory = np.zeros(above - below + x.itemsize, np.uint8)
        known = _blanks[_kind(x)] = np.ndarray(x.shape, x.dtype, memory, -below, x.strides)
        known.flags.writeable = False
    return known


def is_blank(x: Any) -> bool:
    """True for an array made by `blank`: its content means nothing."""
    return type(x) is np.ndarray and not x.flags.writeable and _blanks.get(_kind(x)) is x


def _kind(x: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (x.shape, x.dtype, x.strides)


def drop(tape: Tape) -> None:
    """Drop the large values of a tape's calls, and the nests of them."""
    for op in tape.ops:
        if type(op) is Call and op.fn is pack and any(map(_is_large, operands(op))):
            op.val = Unknown(op.type)
    for op in filter(_is_large, tape.ops):
        op.val = _dropped(op)


def typed(tape: Tape) -> Tape:
    """Give the calls whose values were dropped blank ones, which passes and the writer can look at; return the tape."""
    for op in tape.ops:
        if type(op.val) is Unknown and op.val.like is not None:
            op.val = op.val.like
    return tape


def is_released(tape: Tape) -> bool:
    """True for a tape of which large values were dropped, and nothing else is missing."""
    missing = [op for op in tape.ops if isinstance(op.val, Unknown) and not (type(op) is Call and op.fn is pack)]
    return bool(missing) and all(op.val.like is not None for op in missing)


class Dropping:
    """Drops the large values of a tape that is being recorded, as soon as nothing but the tape holds them."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = Held()

    def watch(self, op: Operation) -> None:
        """Drop the value of an operation, where it is large, once nobody else holds it."""
        if _is_large(op):
            self.held.ops.append(op)
            for free in self.held.let_go():
                free.val = _dropped(free)


def _dropped(op: Operation) -> Unknown:
    return Unknown(op.type, len(op.val) if op.val.ndim else 0, blank(op.val))


def _is_large(op: Operation) -> bool:
    """True for a call of a large value. What makes an array for writing keeps it: passes look at its number, and views of it at its operation."""
    if not (type(op.val) is np.ndarray and op.val.nbytes >= LARGE and type(op) is Call) or op.val.dtype == object or is_blank(op.val):
        return False
    root: Any = op
    while type(root) is Call and type(root.fn) is Op and root.fn.view and isinstance(root.args[0], Operation):
        root = root.args[0]
    return not (type(root) is Call and type(root.fn) is Op and (root.fn.owns or root.fn is setitem))
