"""memory_guards: guards of a lowered tape on the memory layout of its arguments, checked before arrays become tensors,
which lose the layout.
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
    """The guards of a tape on the memory of its arguments; `numbers` are the leaves that they check.

    The tape of a compiled function is `strict`: it accepts arrays with the recorded layout only, since that may decide
    what is a view. A tape compiled by itself skips the guards on layout.
    """

    def __init__(self, tape: Tape) -> None:
        self.strict = False
        at = {x: number for number, x in enumerate(tape.inputs[1:])}
        guards = [op for op in tape.ops if type(op) is Guard and op.fact in MEMORY]
        self.single = [(op, at[op.args[0]]) for op in guards if op.args[0] in at]
        self.several = [(op, [at[x] for x in op.args[0].args]) for op in guards
                        if type(op.args[0]) is Call and op.args[0].fn is pack and all(x in at for x in op.args[0].args)]
        # a guard on the layout of a computed array: this follows from the layouts of all arguments
        derived = any(op.args[0] not in at and op.fact != "apart" for op in guards)
        self.laid = [(layout_of(x.val), number) for x, number in at.items() if derived
                     and isinstance(x.val, np.ndarray)]
        asked = [*(number for _, number in (*self.single, *self.laid)),
                 *(number for _, numbers in self.several for number in numbers)]
        self.numbers = sorted(set(asked))

    def hold(self, *given: Any) -> bool:
        """Return whether the leaves with the numbers in `numbers` pass the guards on their memory."""
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
    """A tape of torch calls, lowered from the tape `of` for one combination of argument types on a device, with the
    guards on their memory.
    """

    tape: Tape
    of: Tape
    device: Any
    layouts: Layouts | None = None
