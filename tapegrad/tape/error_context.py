"""error_context: the error raised when an operation fails; it shows the operation among its neighbours on the tape."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ReplayError, like
from tapegrad.numbers.formatting import brief, type_name
from tapegrad.tape.tape import Operation, Tape

REACH, WIDTH = 3, 100
ADVICE = "tape.step(*args) plays one operation at a time, and shows the values"


def failed(tape: Tape, op: Operation, err: Exception, given: list[Any] | None = None, *,
           pullback: bool = False) -> ReplayError:
    """Return an error of the class of `err` that shows the operation, its neighbours and its arguments' values."""
    message = " ".join(str(err).split())
    what = f"{type(err).__name__}{': ' if message else ''}{message}"
    whose = f"{'the pullback of ' if pullback else ''}`{_cut(repr(op))}` of {tape.name or 'a tape'}"
    advice = "tg.trace(f, *args)[1].step() shows the values it was computed from" if pullback else ADVICE
    new = like(type(err), f"{what}, raised by {whose}", op.where, advice, neighbourhood(tape, op, given))
    for name, value in vars(err).items():  # attributes of the original error, which a handler may read
        if name != "__notes__":
            vars(new).setdefault(name, value)
    return new


def neighbourhood(tape: Tape, op: Operation, given: list[Any] | None = None) -> str:
    """Return the lines of the operations around `op`, with an arrow at `op` and the values of its arguments."""
    lines = []
    for other in tape.ops[max(op.id - 1 - REACH, 0): op.id + REACH]:
        lines.append(("  --> " if other is op else "      ") + _line(other))
        if other is op and given:
            lines.append("        given " + _cut(", ".join(map(_value, given))))
    return "\n".join(lines)


def _value(value: Any) -> str:
    text, kind = brief(value), type_name(value)
    return text if text == f"<{kind}>" or not getattr(value, "shape", ()) else f"{text} {kind}"


def _line(op: Operation) -> str:
    return _cut(repr(op)) + (f"  # {op.origin}" if op.origin else "")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else text[:WIDTH - 3] + "..."
