"""value_retention: which large values a trace that is swept once keeps, and how it reuses the memory of the others.

`grad` reads its tape once and discards it. A large value that no rule reads (see residuals) is dropped while the
program still runs, as soon as only the tape holds it; its memory serves the next value of the same shape and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cache
from sys import getrefcount
from typing import Any

import numpy as np

from tapegrad.numbers.parallel import in_parts
from tapegrad.rules.activity import activity
from tapegrad.rules.op import Op, tracer_of
from tapegrad.rules.registry import DISPATCH
from tapegrad.rules.residuals import needed
from tapegrad.tape.tape import Call, Operation, Tape, drop

# bytes from which an array is tracked: its computation takes far longer than the bookkeeping
LARGE = 1 << 20

# bytes from which freed memory returns to the system; to allocate and free smaller spare arrays again and again would
# cost more than it saves
MAPPED = 1 << 25
SPARE = 4  # dropped arrays that are kept for reuse
_LIVE, _DEAD = b"\1", b"\0"


class Held:
    """Operations with large values, to be dropped as soon as only the tape holds the value.

    Proxies that may use a value hold it, and so does a sweep that needs it, so reference counts decide. They are
    checked again each time the list has grown by a sixteenth, which takes linear time in all.
    """

    __slots__ = ("limit", "ops")

    def __init__(self) -> None:
        self.ops: list[Operation] = []
        self.limit = 1

    def let_go(self, kept: Container[Operation] = (), last: bool = False) -> list[Operation]:
        """Return and forget the operations whose values nobody else holds; forget those in `kept` as well. Does nothing
        before the list has grown enough, except the `last` time.
        """
        if len(self.ops) < self.limit and not last:
            return []
        held: list[Operation] = []
        free: list[Operation] = []
        for op in self.ops:
            if op not in kept:
                (held if getrefcount(op.val) > 2 else free).append(op)  # the operation and this call
        self.ops, self.limit = held, len(held) + len(held) // 16 + 1
        return free


class Retention:
    """The large values of one tape, and which rules read them. `begin` starts it at the first such value. `sweeps`:
    False for a tape that is never swept, whose values no rule reads.
    """

    __slots__ = ("active", "begun", "held", "read", "spare", "sweeps", "tape")
    tape: Tape
    active: bytearray
    held: Held
    read: set[Operation]
    spare: list[Any]

    def __init__(self, sweeps: bool = True) -> None:
        self.begun, self.sweeps = False, sweeps

    def begin(self, tape: Tape) -> None:
        """Track the values of a tape, including those already recorded."""
        self.begun = True
        self.tape, self.active = tape, activity(tape)
        self.held, self.read, self.spare = Held(), set(), []
        for op in tape.ops:
            self._note(op)

    def note(self, op: Operation) -> None:
        """Track an operation that was just put on the tape."""
        live = False
        if type(op) is Call and op.fn.differentiable:
            for x in op.args:
                if isinstance(x, Operation) and self.active[x.id]:
                    live = True
                    break
        self.active[op.id:] = _LIVE if live else _DEAD  # slice: the tape may have been truncated
        self._note(op)

    def _note(self, op: Operation) -> None:
        if type(op) is not Call:
            return
        if self.sweeps and self.active[op.id]:
            for x in (op, *op.args):
                if isinstance(x, Operation) and is_large(x.val):
                    self.read.update(needed(op, self.active))
                    break
        if makes_owned_array(op, op.val):
            self.held.ops.append(op)

    def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Return `fn(*args)` for numbers and arrays, computed into freed memory of the right shape if there is any."""
        self.release()
        return in_parts(fn, *args, out=self._take(args))

    def make_room(self) -> None:
        """Free unneeded memory before a computation that cannot reuse it."""
        self.release()
        self._take(())

    def _take(self, args: tuple[Any, ...]) -> Any:
        """Return a dropped array with the shape and dtype of the first array in `args`, or None; keep a few small ones.
        """
        found = None
        for x in args if self.spare else ():
            if type(x) is np.ndarray:
                at = next((at for at, y in enumerate(self.spare) if y.shape == x.shape and y.dtype == x.dtype), None)
                found = None if at is None else self.spare.pop(at)
                break
        self.spare = [x for x in self.spare if not is_mapped(x)][-SPARE:]
        return found

    def release(self, last: bool = False) -> None:
        """Drop values that nobody holds and no rule reads."""
        if self.tape.result is not None:
            self.read.add(self.tape.result)
        for op in self.held.let_go(self.read, last):
            self.spare.append(op.val)
            drop(op)
        if last:
            self.spare = []


def as_scalar_cotangent(dy: Any, op: Op, y: Any, values: list[Any]) -> Any:
    """Return the scalar behind a large broadcast cotangent of an elementwise op, as the cotangent of a sum is; any
    other cotangent unchanged.

    The rule then allocates no array for it. If everything is double precision the scalar is Python's, so that NumPy can
    multiply a temporary array by it in place.
    """
    if (not is_large(dy) or any(dy.strides) or not (dy.ndim and dy.size) or not is_elementwise(op)
        or tracer_of((y, *values)) is not None):
        return dy
    one = dy[(0,) * dy.ndim]
    return one.item() if all(getattr(x, "dtype", np.float64) == np.float64 for x in (dy, y, *values)) else one


@cache
def is_elementwise(op: Op) -> bool:
    """Return whether an op is a ufunc's: each element of its result depends on the elements at the same position only.
    """
    return any(meaning is op for fn, meaning in DISPATCH.items() if type(fn) is np.ufunc and fn.signature is None
               and fn.nout == 1)


def is_large(x: Any) -> bool:
    """Return whether `x` is a large array."""
    return type(x) is np.ndarray and x.nbytes >= LARGE


def is_mapped(x: Any) -> bool:
    """Return whether an array is so large that its memory returns to the system when it is freed."""
    return type(x) is np.ndarray and x.nbytes >= MAPPED


def is_apart(x: Any) -> bool:
    """Return whether `x` is a large numeric array that owns its memory."""
    return is_large(x) and x.base is None and x.dtype != object


def makes_owned_array(op: Operation, val: Any) -> bool:
    """Return whether a call's value is large, owns its memory, and is never written to."""
    return is_apart(val) and type(op) is Call and not (op.fn.aliases == 0 or op.fn.memory.blank or op.fn.memory.written)
