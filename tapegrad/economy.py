"""economy: what a trace that is swept once keeps of its large values, and how it computes them.

`grad` reads its tape once, and gives it up. So a large value that no rule reads (see `needs`) is dropped while the program still runs, as soon as
nobody but the tape holds it: a later use needs a proxy, which holds the value, so a count of references tells. What is dropped gives its memory
to the next value of its kind.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from tapegrad.brief import type_name
from tapegrad.needs import needed
from tapegrad.ops.write import setitem
from tapegrad.rules import Op
from tapegrad.tape import Call, Operation, Tape

LARGE = 1 << 20  # bytes of an array, from which on it is looked after: what it takes to do so is then nothing beside its computation


class Dropped:
    """What is left of a large array: its type, shape and dtype, for those who look at no more. Whoever asks for its content gets a TypeError."""

    __slots__ = ("_type_name", "dtype", "ndim", "shape", "size")
    __array_ufunc__ = None

    def __init__(self, x: np.ndarray[Any, Any]) -> None:
        self._type_name, self.dtype, self.ndim, self.shape, self.size = type_name(x), x.dtype, x.ndim, x.shape, x.size

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"a {self._type_name} was dropped while the gradient was recorded, and is read all the same: an error of tapegrad's")

    def __repr__(self) -> str:
        return f"<{self._type_name}, dropped>"


class Economy:
    """The large values of one tape: who reads them, and which have been dropped."""

    __slots__ = ("active", "held", "limit", "read", "tape")

    def __init__(self, tape: Tape) -> None:
        from tapegrad.rewrite import activity  # it stands above the trace
        self.tape = tape
        self.active = activity(tape)
        self.held: list[Operation] = []
        self.limit = 1
        self.read: set[Operation] = set()
        for op in tape.ops:
            self._note(op)

    def note(self, op: Operation) -> None:
        """Take in an operation that was just put on the tape."""
        self.active.append(type(op) is Call and getattr(op.fn, "differentiable", True)
                           and any(self.active[arg.id] for arg in op.args if isinstance(arg, Operation)))
        self._note(op)

    def _note(self, op: Operation) -> None:
        if type(op) is not Call:
            return
        if self.active[op.id]:
            self.read.update(needed(op, self.active))
        if is_large(op.val) and not (op.fn.view or op.fn.owns or op.fn is setitem):
            self.held.append(op)

    def release(self, last: bool = False) -> None:
        """Drop what nobody holds and no rule reads; of many values that are held, look only when a sixteenth more has come, or at the `last`."""
        if len(self.held) < self.limit and not last:
            return
        held = []
        for op in self.held:
            if op in self.read or op is self.tape.result:
                continue
            if getrefcount(op.val) > 2:  # what the operation and this call hold
                held.append(op)
            else:
                op.val = Dropped(op.val)
        self.held, self.limit = held, len(held) + len(held) // 16 + 1


def is_large(x: Any) -> bool:
    """True for a large array of numbers in memory of its own."""
    return type(x) is np.ndarray and x.nbytes >= LARGE and x.base is None and x.dtype != object
