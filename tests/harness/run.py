"""run: a tape without its values, its source as a function, and the memory that a call takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

from tapegrad.tape.tape import Call, Tape, drop
from tapegrad.transforms.walk import copy_tape


def exported(tape: Tape) -> Callable[..., Any]:
    """Return the function of a tape's source."""
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(tape.to_python("exported"), "<exported>", "exec"), names)
    return names["exported"]  # type: ignore[no-any-return]


def bare(tape: Tape) -> Tape:
    """Return a copy of a tape whose calls have specs alone."""
    made = copy_tape(tape)
    for op in made:
        if type(op) is Call and op.fn.__name__ != "draw":
            drop(op)
            op.pb = None
    return made


def peak(call: Callable[[], Any]) -> tuple[int, int]:
    """Return the most bytes that a call has in use, and how many it leaves."""
    tracemalloc.start()
    try:
        kept = call()
        now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del kept
    return most, now
