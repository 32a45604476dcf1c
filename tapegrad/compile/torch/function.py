"""function: compiles a lowered tape to a Python function of its leaves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from tapegrad.compile.numpy.function import Miss
from tapegrad.compile.torch.source import Text
from tapegrad.errors import GuardError
from tapegrad.replay.facts import verify
from tapegrad.tape.tape import Guard, Tape

numbers = count(1)
Run = Callable[..., Any]


def function_of(tape: Tape) -> Run:
    """Return a lowered tape as a function from its leaves to a list of the parts of its result."""
    text = Text(tape)
    body = [*text.lines, f"return [{', '.join(text.parts)}]"]
    source = "\n".join([f"def run({', '.join(text.leaves)}):", *(f"    {line}" for line in body), ""])
    names = scope(text, tape)
    exec(compile(source, f"<tapegrad {tape.name} on torch {next(numbers)}>", "exec"), names)
    run: Any = names["run"]
    run.source = source
    return run  # type: ignore[no-any-return]


def scope(text: Text, tape: Tape) -> dict[str, Any]:
    """Return the globals of a text's code, with `miss` and `check` for the tape's guards."""
    guards = text.guards
    return {**text.names.objects, "__name__": "tapegrad.compiled",
            "miss": lambda number=-1: Miss(tape, None if number < 0 else guards[number]),
            "check": lambda number, value: check(guards[number], value)}


def check(guard: Guard, value: Any) -> bool:
    """Return whether a guard holds."""
    try:
        verify(guard, value)
    except GuardError:
        return False
    return True
