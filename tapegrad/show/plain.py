"""A tape as plain text."""

from __future__ import annotations

from tapegrad.tape import Tape


def format_tape(tape: Tape, style: str = "plain", width: int | None = None) -> str:
    return "\n".join(f"{op!r}" + (f"  # {op.note}" if op.note else "") for op in tape)
