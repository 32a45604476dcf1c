"""memory: the piece of memory that a value lies in, as the ops on a tape say.

What an op gives `lies` where one of its arguments does (its number), ELSEWHERE, in memory that may not be the tape's
own, or, None, in memory of its own; several things have a tuple of these. It changes the arguments that it `writes`, by
number.
"""

from __future__ import annotations

from typing import Any

from tapegrad.ops import getfield
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.transforms.walk import Walk

ELSEWHERE = -1


def root(x: Operation) -> Operation:
    """Return the operation that made the memory that a value lies in: the same for all values there, as the ops say."""
    while type(x) is Call:
        of, lies = _place(x)
        if type(lies) is not int or lies == ELSEWHERE:
            break
        x = of.args[lies]
    return x


def is_given(x: Operation) -> bool:
    """True for a value in memory that may not be the tape's own."""
    x = root(x)
    return type(x) is not Call or _place(x)[1] == ELSEWHERE


def _place(x: Call) -> tuple[Call, Any]:
    """Return the call that a value came out of, and where it lies."""
    if x.fn is not getfield:
        return x, getattr(x.fn, "lies", None)
    of, key = x.args
    several = getattr(of.fn, "lies", None) if type(of) is Call else None
    return (of, several[key]) if type(several) is tuple else (x, ELSEWHERE)


def writes(op: Operation) -> list[Operation]:
    """Return the roots of what a call writes to."""
    return [root(op.args[i]) for i in getattr(op.fn, "writes", ())] if type(op) is Call else []


def written(tape: Tape) -> set[Operation]:
    """Return the roots of what calls write to."""
    return {x for op in tape.ops for x in writes(op)}


class Lying(Walk):
    """A pass that puts one operation on the new tape for each of the old, and asks what is written to."""

    def __init__(self, tape: Tape, count: bool = False) -> None:
        super().__init__(tape, count=count)
        self.changed = {x.id for x in written(tape)}

    def stays(self, x: Operation) -> bool:
        """True for a value, of either tape, in memory that nothing writes to."""
        return root(x).id not in self.changed
