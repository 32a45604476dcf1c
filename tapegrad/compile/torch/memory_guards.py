"""memory_guards: what a lowered tape guards of the memory of its arguments, asked as they are given: an array loses it
where it becomes a tensor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import GuardError
from tapegrad.numbers.cotangents import layout_of
from tapegrad.ops import pack
from tapegrad.replay.facts import verify
from tapegrad.tape.tape import Call, Guard, Tape

MEMORY = frozenset(["apart", "layout", "strides", "writeable"])


class Layouts:
    """The guards of a tape on the memory of its arguments; `numbers` are the leaves that they ask.

    The tape of a function, which is `strict`, serves arrays that lie as those that it was recorded with: what is a view
    may depend on it. A tape that was compiled by itself means what it says, whatever it is given, but for arguments
    that share memory or cannot be written to.
    """

    def __init__(self, tape: Tape) -> None:
        self.strict = False
        at = {x: number for number, x in enumerate(tape.inputs[1:])}
        guards = [op for op in tape.ops if type(op) is Guard and op.fact in MEMORY]
        self.single = [(op, at[op.args[0]]) for op in guards if op.args[0] in at]
        self.several = [(op, [at[x] for x in op.args[0].args]) for op in guards
                        if type(op.args[0]) is Call and op.args[0].fn is pack and all(x in at for x in op.args[0].args)]
        # of a result: it follows from how all arguments lie
        derived = any(op.args[0] not in at and op.fact != "apart" for op in guards)
        self.laid = [(layout_of(x.val), number) for x, number in at.items() if derived
                     and isinstance(x.val, np.ndarray)]
        asked = [*(number for _, number in (*self.single, *self.laid)),
                 *(number for _, numbers in self.several for number in numbers)]
        self.numbers = sorted(set(asked))

    def hold(self, *given: Any) -> bool:
        """Return whether the leaves with these numbers lie in memory as the tape has it."""
        leaves = dict(zip(self.numbers, given))
        if self.strict and any(isinstance(leaves[number], np.ndarray) and layout_of(leaves[number]) != layout
                               for layout, number in self.laid):
            return False
        try:
            for guard, number in self.single:
                if self.strict or guard.fact != "layout":
                    verify(guard, leaves[number])
            for guard, numbers in self.several:
                verify(guard, tuple([leaves[number] for number in numbers]))
        except GuardError:
            return False
        return True


class Lowered(NamedTuple):
    """What a tape comes down to for one kind of arguments on a device; of their memory `layouts` ask."""

    tape: Tape
    of: Tape
    device: Any
    layouts: Layouts | None = None
