"""liveness: the last use of each value, and the operations that a result depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tapegrad.tape.tape import Operation, Tape, operands


def last_uses(tape: Tape, kept: Iterable[Any] = ()) -> list[list[int]]:
    """Return, by position, the operations whose values are dead after it; the result and `kept` never die."""
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
    """Return, by position, whether any of `results` depends on the operation."""
    leads = bytearray(len(ops) + 1)
    for result in results:
        if isinstance(result, Operation):
            leads[result.id] = 1
    for op in reversed(ops):
        if leads[op.id]:
            for used in operands(op):
                leads[used.id] = 1
    return leads
