"""ties: branches that a program took by a comparison of equal numbers, at least one of them differentiated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tapegrad import ops
from tapegrad.debug.find import Finding
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.activity import activity
from tapegrad.tape.tape import Call, Guard, Operation, Tape, value_of

_COMPARISONS = {ops.equal: "==", ops.not_equal: "!=", ops.less: "<", ops.less_equal: "<=", ops.greater: ">",
                ops.greater_equal: ">="}


def ties(tape: Tape) -> Iterator[Finding]:
    """Yield a finding for each branch taken by a comparison of equal numbers, at least one of them differentiated."""
    depends = activity(tape)
    for op in tape.ops:
        asked = op.args[0] if type(op) is Guard and op.fact == "bool" else None
        if type(asked) is Call and asked.fn in _COMPARISONS:
            a, b = (plain(value_of(x)) for x in asked.args)
            moves = any(isinstance(x, Operation) and depends[x.id] and isinstance(val, (float, complex, np.inexact))
                        for x, val in zip(asked.args, (a, b)))
            if moves and not shape_of(a) and not shape_of(b) and a == b:
                yield Finding("tie", asked, tape, "forward", asked.val,
                              f"The result stands on a tie: `{_COMPARISONS[asked.fn]}` compares {a!r} with a number "
                              "that equals it, and next to it the program takes the other branch. The gradient is "
                              "that of the branch taken.")
