"""liveness: after which operation is a value dead?"""

from __future__ import annotations

from tapegrad.tape.tape import Tape, operands


def last_uses(tape: Tape) -> list[list[int]]:
    """Return, by position, the operations whose values are dead after it, in one backward pass."""
    dead: list[list[int]] = [[] for _ in range(len(tape.ops) + 1)]
    seen = bytearray(len(tape.ops) + 1)
    seen[tape.result.id] = 1  # type: ignore[union-attr]
    for op in reversed(tape.ops):
        if not seen[op.id]:
            seen[op.id] = 1
            dead[op.id].append(op.id)
        for used in operands(op):
            if not seen[used.id]:
                seen[used.id] = 1
                dead[op.id].append(used.id)
    return dead
