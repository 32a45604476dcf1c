"""speedscope: a profile as JSON for https://www.speedscope.app, in its evented format."""

from __future__ import annotations

import json
from typing import Any

from tapegrad.debug.execution import name_of
from tapegrad.tape.tape import Operation, Tape

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
Frame = tuple[tuple[str, Any], ...]


def speedscope(tape: Tape, ends: list[int], turn: int) -> str:
    """Return the JSON text; `ends` are the nanoseconds at which the operations ended, `turn` is the number of the first
    operation of the reverse sweep. The stack is phase, function, line, operation; frames that consecutive operations
    share stay open.
    """
    frames: dict[Frame, int] = {}
    events: list[dict[str, Any]] = []
    opened: list[int] = []
    places: dict[tuple[int, int], list[Frame]] = {}
    start = 0
    for op, end in zip(tape, ends):
        stack = [frames.setdefault(frame, len(frames)) for frame in _stack(op, turn, places)]
        same = 0
        while same < min(len(opened), len(stack) - 1) and opened[same] == stack[same]:
            same += 1
        events += [{"type": "C", "frame": frame, "at": start} for frame in reversed(opened[same:])]
        events += [{"type": "O", "frame": frame, "at": start} for frame in stack[same:]]
        opened, start = stack, end
    events += [{"type": "C", "frame": frame, "at": start} for frame in reversed(opened)]
    name = tape.name or "tape"
    return json.dumps({
        "$schema": SCHEMA, "name": name, "exporter": "tapegrad", "activeProfileIndex": 0,
        "shared": {"frames": [dict(frame) for frame in frames]},
        "profiles": [{"type": "evented", "name": name, "unit": "nanoseconds", "startValue": 0, "endValue": start,
                      "events": events}],
    })


def _stack(op: Operation, turn: int, places: dict[tuple[int, int], list[Frame]]) -> list[Frame]:
    """Return the frames of an operation, outermost first."""
    key = id(op.code), op.lasti
    if key not in places:
        where = op.where
        places[key] = [] if where is None else [
            (("name", where.function), ("file", where.file)),
            (("name", f"{where.short}  {where.source}"), ("file", where.file), ("line", where.line))]
    phase: Frame = (("name", "setup" if op.id == 1 else "backward" if op.id >= turn else "forward"),)
    return [phase, *places[key], (("name", name_of(op)),)]
