"""liveness: after which operation is a value dead, and which values does a result depend on?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tapegrad.tape.tape import Operation, Tape, operands


def last_uses(tape: Tape, kept: Iterable[Any] = ()) -> list[list[int]]:
    """Return, by position, the operations whose values are dead after it, in one backward pass; the result and
    what is `kept` never are.
    """
    dead: list[list[int]] = [[] for _ in range(len(tape.ops) + 1)]
    seen = bytearray(len(tape.ops) + 1)
    for result in (tape.result, *kept):
        if isinstance(result, Operation):
            seen[result.id] = 1
    for op in reversed(tape.ops):
        if not seen[op.id]:
            seen[op.id] = 1
            dead[op.id].append(op.id)
        for used in operands(op):
            if not seen[used.id]:
                seen[used.id] = 1
                dead[op.id].append(used.id)
    return dead


def leading(ops: Sequence[Operation], results: Iterable[Any]) -> bytearray:
    """Return, by position, which of a tape's operations the results among them depend on."""
    leads = bytearray(len(ops) + 1)
    for result in results:
        if isinstance(result, Operation):
            leads[result.id] = 1
    for op in reversed(ops):
        if leads[op.id]:
            for used in operands(op):
                leads[used.id] = 1
    return leads
