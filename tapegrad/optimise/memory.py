"""memory: the piece of memory that a value lies in, as the ops on a tape say.

The result of an op lies in the memory of the argument that it `aliases` (its number), in memory that may not be the
tape's own (ANY), or in fresh memory (None); several results have a tuple of these. An op changes the arguments that it
`writes`, by number.
"""

from __future__ import annotations

from typing import Any

from tapegrad.ops import whole_of
from tapegrad.rules.facts import ANY
from tapegrad.tape.tape import Call, Operation, Tape


def root(x: Operation) -> Operation:
    """Return the operation that made the memory that a value lies in: the same for all values there, as the ops say."""
    while type(x) is Call:
        of, aliases = _place(x)
        if type(aliases) is not int or aliases == ANY or not isinstance(of.args[aliases], Operation):
            break
        x = of.args[aliases]
    return x


def is_given(x: Operation) -> bool:
    """True for a value in memory that may not be the tape's own."""
    x = root(x)
    return type(x) is not Call or _place(x)[1] == ANY


def _place(x: Call) -> tuple[Call, Any]:
    """Return the call that a value came out of, and where it lies."""
    of = whole_of(x)
    several = None if of is None else getattr(of.fn, "aliases", None)
    return (of, several[x.args[1]]) if type(several) is tuple else (x, getattr(x.fn, "aliases", ANY))


def writes(op: Operation) -> list[Operation]:
    """Return the roots of what a call writes to."""
    return [root(op.args[i]) for i in getattr(op.fn, "writes", ())]


def written(tape: Tape) -> set[Operation]:
    """Return the roots of what calls write to."""
    return {x for op in tape.ops for x in writes(op)}
