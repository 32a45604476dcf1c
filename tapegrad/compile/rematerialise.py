"""rematerialise: a tape that has no values from the call that recorded it until a later one, which gives it new ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapegrad.compile.numpy.function import Miss
from tapegrad.errors import GuardError
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import draw, pack
from tapegrad.replay.interpreter import Run
from tapegrad.rules.activity import activity
from tapegrad.rules.registry import Op
from tapegrad.tape.tape import Call, Guard, Input, Tape, Unknown
from tapegrad.trace.residuals import needed
from tapegrad.trace.value_retention import Dropped, makes_apart
from tapegrad.transforms.blank import blank


def is_refillable(tape: Tape) -> bool:
    """True for a tape of tapegrad's own operations: of a user's function nobody knows what a run does besides, or what it costs."""
    return not any(type(op) is Call and (type(op.fn) is not Op or op.fn.nested or op.fn.rr is not None) for op in tape.ops)


class Bare:
    """What is to be seen of a call's value once it is given up: its type, or one of Python's or NumPy's numbers itself.

    A replay asks which calls gave numbers; what was drawn stays for one that repeats it.
    """

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        self.kinds: dict[Any, Unknown] = {}

    def __call__(self, op: Call) -> Any:
        val = op.val
        if type(val) in PYTHON or op.fn is draw:
            return val
        if type(val) is np.ndarray or type(val) is Dropped:
            kind = val.shape, val.dtype
            known = self.kinds.get(kind)
            if known is None:
                known = self.kinds[kind] = Unknown(op.type, val.shape[0] if val.ndim else 0)
            return known
        if op.fn is pack or isinstance(val, dict) or is_tensor(val) or (isinstance(val, (tuple, list)) and not {*map(type, val)} <= PYTHON):
            return Unknown(op.type)
        return val


def strip(tape: Tape) -> None:
    """Give the values of a tape's calls up, and their pullbacks."""
    bare = Bare()
    for op in tape.ops:
        if type(op) is Call:
            op.val, op.pb = bare(op), None


@contextmanager
def refilled(tape: Tape, leaves: list[Any]) -> Iterator[Tape]:
    """Give a tape the values that it has for other arguments, of the kinds that it was recorded with.

    Raises Miss where a guard does not hold; then, and when what is done with the tape fails, it has again what it had.
    Arguments and generators are what they were: what is written is the tape's own, and copies of the generators draw. NumPy's
    floating-point errors are left to the call that comes after this.
    """
    before = [op.val for op in tape.ops]
    with np.errstate(all="ignore"):
        values = _values(tape, leaves)
        try:
            for op, val in zip(tape.ops, values):
                if type(op) is Call or type(op) is Input:
                    op.val = val
            values.clear()  # what is done with the tape may free them
            yield tape
        except BaseException:
            for op, val in zip(tape.ops, before):
                op.val = val
                if type(op) is Call:
                    op.pb = None
            raise


def _read(tape: Tape) -> set[Any]:
    """Return the operations whose values the rules of a tape's calls read."""
    active = activity(tape)
    return {op for call in tape.ops if type(call) is Call and active[call.id] for op in needed(call, active)}


def _values(tape: Tape, leaves: list[Any]) -> list[Any]:
    """Replay a tape, and return the values of its operations; memory that is written in place has its last content, as while recording.

    Of large ones that no rule reads there is but a blank: the passes look at no more than how they lie.
    """
    values: list[Any] = []
    read: set[Any] | None = None
    run = Run(tape, [tape.ops[0].val, *leaves], rehearse=True)
    try:
        for op in run:
            val = run.values[op.id]
            if makes_apart(op, val):
                read = _read(tape) if read is None else read
                val = val if op in read else blank(val)
            values.append(val)
    except GuardError as err:
        guard = tape.ops[len(values)]
        raise Miss(tape, guard if type(guard) is Guard else None) from err
    return values
