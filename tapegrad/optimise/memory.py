"""memory: the buffer that a value lies in, from the ops' `aliases` and `writes`.

`aliases` is the number of the argument whose memory the result shares, ANY for memory that may not be the tape's own,
None for fresh memory; a tuple of these for several results. `writes` holds the numbers of the arguments that an op
changes.
"""

from __future__ import annotations

from typing import Any

from tapegrad.ops import whole_of
from tapegrad.rules.facts import ANY
from tapegrad.tape.tape import Call, Operation, Tape


def root(x: Operation) -> Operation:
    """Return the operation that made the memory of a value; values that share memory have one root."""
    while type(x) is Call:
        of, aliases = _place(x)
        if type(aliases) is not int or aliases == ANY or not isinstance(of.args[aliases], Operation):
            break
        x = of.args[aliases]
    return x


def is_given(x: Operation) -> bool:
    """Return whether a value lies in memory that may not be the tape's own."""
    x = root(x)
    return type(x) is not Call or _place(x)[1] == ANY


def _place(x: Call) -> tuple[Call, Any]:
    """Return the call that made a value, and the value's entry in the op's `aliases`."""
    of = whole_of(x)
    several = None if of is None else getattr(of.fn, "aliases", None)
    return (of, several[x.args[1]]) if type(several) is tuple else (x, getattr(x.fn, "aliases", ANY))


def writes(op: Operation) -> list[Operation]:
    """Return the roots of the memory that a call writes to."""
    return [root(op.args[i]) for i in getattr(op.fn, "writes", ())]


def written(tape: Tape) -> set[Operation]:
    """Return the roots of the memory that a tape writes to."""
    return {x for op in tape.ops for x in writes(op)}
