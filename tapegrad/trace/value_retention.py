"""value_retention: what a trace that is swept once keeps of its large values, and how it computes them.

`grad` reads its tape once, and gives it up. So a large value that no rule reads (see residuals) is dropped while the
program still runs, as soon as nobody but the tape holds it. What is dropped gives its memory to the next value of its
kind.
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
from tapegrad.rules.registry import FOREIGN
from tapegrad.rules.residuals import needed
from tapegrad.tape.tape import Call, Operation, Tape, drop

# bytes of an array, from which on it is looked after: what it takes to do so is then nothing beside its computation
LARGE = 1 << 20

# bytes, from which on memory that is freed goes back to the system; of less, it would come and go,
# which costs more than it saves
MAPPED = 1 << 25
SPARE = 4  # dropped arrays that are kept for what comes next
_LIVE, _DEAD = b"\1", b"\0"


class Held:
    """Operations of large values that are to be dropped as soon as nobody but the tape holds them.

    Whoever may use a value has a proxy that holds it, and so does a sweep while it needs the value: so a count of
    references tells. All are looked at again when there are a sixteenth more of them, which takes time linear in their
    number.
    """

    __slots__ = ("limit", "ops")

    def __init__(self) -> None:
        self.ops: list[Operation] = []
        self.limit = 1

    def let_go(self, kept: Container[Operation] = (), last: bool = False) -> list[Operation]:
        """Return those whose values nobody else holds, and forget them and what is `kept`; the `last`
        time however few there are.
        """
        if len(self.ops) < self.limit and not last:
            return []
        held: list[Operation] = []
        free: list[Operation] = []
        for op in self.ops:
            if op not in kept:
                (held if getrefcount(op.val) > 2 else free).append(op)  # what the operation and this call hold
        self.ops, self.limit = held, len(held) + len(held) // 16 + 1
        return free


class Economy:
    """The large values of one tape: who reads them, and which may be dropped. It begins with the first of them. Of a
    tape that nobody `sweeps` no rule reads any.
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
        """Look after the values of a tape, as far as it has been recorded."""
        self.begun = True
        self.tape, self.active = tape, activity(tape)
        self.held, self.read, self.spare = Held(), set(), []
        for op in tape.ops:
            self._note(op)

    def note(self, op: Operation) -> None:
        """Take in an operation that was just put on the tape."""
        live = False
        if type(op) is Call and op.fn.differentiable:
            for x in op.args:
                if isinstance(x, Operation) and self.active[x.id]:
                    live = True
                    break
        self.active[op.id:] = _LIVE if live else _DEAD  # the tape may have been cut before it
        self._note(op)

    def _note(self, op: Operation) -> None:
        if type(op) is not Call:
            return
        if self.sweeps and self.active[op.id]:
            for x in (op, *op.args):
                if isinstance(x, Operation) and is_large(x.val):
                    self.read.update(needed(op, self.active))
                    break
        if makes_apart(op, op.val):
            self.held.ops.append(op)

    def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Return `fn(*args)`, a function of numbers and arrays, in memory that has become free where that fits."""
        self.release()
        return in_parts(fn, *args, out=self._take(args))

    def make_room(self) -> None:
        """Free what is not needed, before something is computed that cannot use its memory."""
        self.release()
        self._take(())

    def _take(self, args: tuple[Any, ...]) -> Any:
        """Return a dropped array like one of the arguments, None where there is none; keep a
        few of the others, small ones.
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
        """Drop what nobody holds and no rule reads."""
        if self.tape.result is not None:
            self.read.add(self.tape.result)
        for op in self.held.let_go(self.read, last):
            self.spare.append(op.val)
            drop(op)
        if last:
            self.spare = []


def unstretched(dy: Any, op: Op, y: Any, values: list[Any]) -> Any:
    """Return the number of which a large cotangent of an elementwise op is made all over, as that of a sum is;
    another cotangent as it is.

    Its rule then makes no array of it. Where all is in double precision it is Python's, of which NumPy multiplies an
    array that nobody else holds in place.
    """
    if (not is_large(dy) or any(dy.strides) or not (dy.ndim and dy.size) or not is_elementwise(op)
        or tracer_of((y, *values)) is not None):
        return dy
    one = dy[(0,) * dy.ndim]
    return one.item() if all(getattr(x, "dtype", np.float64) == np.float64 for x in (dy, y, *values)) else one


@cache
def is_elementwise(op: Op) -> bool:
    """True for an op that a ufunc means: each number of its value depends on those in its place alone."""
    return any(meaning is op for fn, meaning in FOREIGN.items() if type(fn) is np.ufunc and fn.signature is None
               and fn.nout == 1)


def is_large(x: Any) -> bool:
    """True for a large array."""
    return type(x) is np.ndarray and x.nbytes >= LARGE


def is_mapped(x: Any) -> bool:
    """True for an array so large that its memory goes back to the system when it is freed."""
    return type(x) is np.ndarray and x.nbytes >= MAPPED


def is_apart(x: Any) -> bool:
    """True for a large array of numbers in memory of its own."""
    return is_large(x) and x.base is None and x.dtype != object


def makes_apart(op: Operation, val: Any) -> bool:
    """True for a call of a large value in memory of its own, into which nothing is written."""
    return is_apart(val) and type(op) is Call and not (op.fn.aliases == 0 or op.fn.memory.blank or op.fn.memory.written)
