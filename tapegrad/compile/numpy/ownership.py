"""ownership: finds arrays that nothing else refers to, which may be written in place and returned without a copy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tapegrad.compile.known_functions import is_known, is_number
from tapegrad.ops import getitem, imag
from tapegrad.ops.loop import is_loop
from tapegrad.rules.facts import ANY
from tapegrad.rules.op import memory_of
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Operation, Tape, operands


class Ownership:
    """The operations of a tape, up to the last one passed to `note`, that own their memory: it is fresh, and no view,
    loop, tuple or user function shares it. A view of a dead owned array owns its memory. `given` inputs are owned.
    """

    def __init__(self, tape: Tape, given: Collection[Operation] = ()) -> None:
        self.dead, self.owned = last_uses(tape), {*given}

    def note(self, op: Call) -> None:
        """Update the owned operations by a call."""
        known = is_known(op.fn) and not is_loop(op)
        if known and is_number(op.spec):
            return
        aliases: Any = getattr(op.fn, "aliases", ANY) if known else ANY
        if aliases is None or (op.fn is getitem and any(isinstance(part, list) or spec_of(part).has_axes
                                                        for part in op.args[1:])):  # advanced indexing makes a copy
            self.owned |= {op} if op.spec.is_memory else set()
            return
        sources = operands(op) if aliases == ANY else [x for x in op.args[aliases:aliases + 1]
                                                       if isinstance(x, Operation)]
        readonly = memory_of(op.fn).readonly or (op.fn is imag and not spec_of(op.args[0]).is_complex)
        taken = sources and aliases != ANY and not readonly and all(x in self.owned and self.dies(x, op)
                                                                    for x in sources)
        self.owned.difference_update(sources)
        if taken and op.spec.is_memory:
            self.owned.add(op)

    def dies(self, x: Operation, op: Operation) -> bool:
        """Return whether `op` is the last operation that uses `x`."""
        return x.id in self.dead[op.id]

    def may_write(self, op: Call) -> bool:
        """Return whether a `setitem` may write in place: nothing else needs the array, and its type stays the same."""
        x = op.args[0]
        return x in self.owned and self.dies(x, op) and op.args.count(x) == 1 and (
            (x.spec.shape, x.spec.dtype, x.spec.layout) == (op.spec.shape, op.spec.dtype, op.spec.layout))
