"""rematerialise: a tape that has no values from the call that recorded it until a later one,
which gives it new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapegrad.compile.numpy.function import Miss
from tapegrad.errors import GuardError
from tapegrad.ops import draw, pack
from tapegrad.replay.interpreter import Run
from tapegrad.rules.activity import activity
from tapegrad.rules.op import Op
from tapegrad.rules.residuals import needed
from tapegrad.tape.spec import absent, spec_of
from tapegrad.tape.tape import Call, Guard, Input, Tape
from tapegrad.trace.value_retention import makes_apart


def is_refillable(tape: Tape) -> bool:
    """True for a tape of tapegrad's own operations: of a user's function nobody knows what a run does
    besides, or what it costs.
    """
    return not any(type(op) is Call and (type(op.fn) is not Op or op.fn.nested or op.fn.rr is not None)
                   for op in tape.ops)


def remains(op: Call) -> Any:
    """Return what stays of a call's value when it is given up: its spec, or one of Python's or NumPy's numbers itself.

    A replay asks which calls gave numbers; what was drawn stays for one that repeats it.
    """
    val, y = op.val, op.spec
    if op.fn is draw or y.is_python:
        return val
    nest = isinstance(val, dict) or (isinstance(val, (tuple, list)) and not all(part.is_python for part in y.parts))
    return absent(y) if y.is_array or nest or op.fn is pack or y.system == "torch" else val


def strip(tape: Tape) -> None:
    """Give the values of a tape's calls up, and their pullbacks."""
    for op in tape.ops:
        if type(op) is Call:
            op.val, op.pb = remains(op), None


@contextmanager
def refilled(tape: Tape, leaves: list[Any]) -> Iterator[Tape]:
    """Give a tape the values that it has for other arguments, of the kinds that it was recorded with.

    Raises Miss where a guard does not hold; then, and when what is done with the tape fails, it has again what it had.
    Arguments and generators are what they were: what is written is the tape's own, and copies of the generators draw.
    NumPy's floating-point errors are left to the call that comes after this.
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
    """Replay a tape, and return the values of its operations; memory that is written in place has its last
    content, as while recording.

    Large ones that no rule reads are absent: the passes look at no more than how they lie.
    """
    values: list[Any] = []
    read: set[Any] | None = None
    run = Run(tape, [tape.ops[0].val, *leaves], rehearse=True)
    try:
        for op in run:
            val = run.values[op.id]
            if makes_apart(op, val):
                read = _read(tape) if read is None else read
                val = val if op in read else absent(spec_of(val))
            values.append(val)
    except GuardError as err:
        guard = tape.ops[len(values)]
        raise Miss(tape, guard if type(guard) is Guard else None) from err
    return values
