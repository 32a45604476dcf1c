"""roll: repeated segments of a tape become loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import default_rng, draw
from tapegrad.optimise.early_draws import early_draws
from tapegrad.optimise.loop_links import linked
from tapegrad.optimise.repeat_detection import Segment, segments
from tapegrad.optimise.segment_loop import SegmentLoop, Unlike
from tapegrad.rules.facts import Rrule
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.tape import Call, Tape, operands
from tapegrad.transforms.walk import Walk, own

LEAST = 8  # runs of a loop
SAVED = 60  # operations that a loop is shorter by: below, the calls one by one compile soon enough
PEELED = 2  # first pieces that may be unlike the others, in what they are computed from


def roll(tape: Tape, least: int = LEAST, saved: int = SAVED) -> Tape:
    """Return a tape on which what a program's loop recorded again and again, `least` times or more, is a `Loop`, one
    body, where that saves so many operations.

    The pieces must make the same calls on values of the same types, each on what it has computed itself, on what the
    piece before it has, on the same earlier values as all others, each on an earlier value of its own, or on numbers
    known when the tape was made. Their guards are the body's. What is the same in all runs is computed once, before the
    loop; what is used behind it of each run is collected. So a reverse sweep is a loop that goes through what the first
    collected backwards. Calls of a user's functions, and random draws, are in no loop; these are made before the
    loops where they can be. The tape's values are needed; those of a body are the first run's.

    >>> import tapegrad as tg
    >>> def f(x):
    ...     for i in range(100):
    ...         x = x + i * x
    ...     return x
    >>> value, tape = tg.trace(f, 1e-9)
    >>> rolled = roll(tape, saved=0)
    >>> len(tape), len(rolled), rolled.play(2e-9) == tape.play(2e-9)
    (202, 4, True)
    """
    check_is_tape(tape, "roll")
    if len(tape) < saved:
        return tape
    given, tape = tape, early_draws(tape)
    found = [segment for segment in segments(tape, least, saved) if _may_loop(tape, segment)]
    last = _last_uses(tape) if found else None
    loops = linked(tape, [rolled for segment in found if (rolled := _tried(tape, segment, last, least)) is not None],
                   least)
    if not loops:
        return given
    del last  # what is made below takes as much memory
    walk, at = Walk(tape), 0
    for rolled in loops:
        for op in tape.ops[at:rolled.start]:
            walk.keep(op)
        rolled.write(walk, loops)
        at = rolled.stop
    for op in tape.ops[at:]:
        walk.keep(op)
    return walk.done()


def saved_by_loops(tape: Tape, least: int = LEAST, saved: int = SAVED) -> int:
    """Return by how many operations `roll` is expected to make a tape shorter, from what repeats itself alone."""
    if len(tape) < saved:
        return 0
    tape = early_draws(tape)
    found = segments(tape, least, saved)
    return sum(segment.period * (segment.pieces - 1) for segment in found if _may_loop(tape, segment))


def _may_loop(tape: Tape, segment: Segment) -> bool:
    """True for a segment of calls that do nothing but return a value, of a type that follows from their arguments'."""
    for op in tape.ops[segment.start:segment.start + segment.period]:
        if isinstance(op, Call) and (not own(op.fn) or op.fn in (draw, default_rng) or op.fn.dynamic
                                     or type(op.fn.rule) is Rrule or op.fn.effects.nested):
            return False
    return True


def _last_uses(tape: Tape) -> Any:
    """Return, by position, the last operation that uses each, one behind the tape for its result."""
    last = np.zeros(len(tape.ops) + 1, np.int32)
    for op in tape.ops:
        for used in operands(op):
            last[used.id] = op.id
    last[tape.result.id] = len(tape.ops) + 1
    return last


def _tried(tape: Tape, segment: Segment, last: Any, least: int) -> SegmentLoop | None:
    """Return a segment's loop, if need be without its first pieces, or without the last, or of pieces that begin later.
    """
    later = 0
    for first in range(PEELED + 1):
        for short in range(2):
            pieces = segment.pieces - first - short
            if pieces >= least:
                try:
                    return SegmentLoop(tape, Segment(segment.start + first * segment.period, segment.period, pieces),
                                       last)
                except Unlike as unlike:
                    later = later or unlike.later
    if not later:
        return None
    return _tried(tape, Segment(segment.start + later, segment.period, segment.pieces - 1), last, least)
