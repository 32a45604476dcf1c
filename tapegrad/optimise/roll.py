"""roll: turns repeated segments of a tape into loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import default_rng, draw
from tapegrad.optimise.early_draws import early_draws
from tapegrad.optimise.loop_links import linked
from tapegrad.optimise.repeat_detection import Segment, segments
from tapegrad.optimise.segment_loop import NotALoop, SegmentLoop
from tapegrad.rules.facts import Rrule
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.tape import Call, Tape, operands
from tapegrad.transforms.walk import Walk, own

LEAST = 8  # fewest runs of a loop
SAVED = 60  # operations that a loop must save: fewer compile fast enough one by one
PEELED = 2  # first pieces that may be left out because their operands differ


def roll(tape: Tape, least: int = LEAST, saved: int = SAVED) -> Tape:
    """Return a tape on which a segment that repeats at least `least` times is one `Loop`, if that saves `saved`
    operations.

    The pieces must make the same calls on values of the same types. Each operand is a value of the same piece or of the
    one before, one earlier value for all pieces, an earlier value for each piece, or a number known at recording. The
    body contains the guards. Invariant values are computed once, before the loop; values of all runs that are used
    behind the loop are collected. A reverse sweep thus becomes a loop backwards over the values that the first loop
    collected. Loops contain no calls of user functions and no random draws; draws are made before the loops if
    possible. The tape must hold its values; those of a body are the first run's.

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
    del last  # frees as much memory as is needed below
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
    """Return the estimated number of operations that `roll` saves, from the repeated segments alone."""
    if len(tape) < saved:
        return 0
    tape = early_draws(tape)
    found = segments(tape, least, saved)
    return sum(segment.period * (segment.pieces - 1) for segment in found if _may_loop(tape, segment))


def _may_loop(tape: Tape, segment: Segment) -> bool:
    """Return whether the calls of a segment only return a value, whose type follows from the arguments' types."""
    for op in tape.ops[segment.start:segment.start + segment.period]:
        if isinstance(op, Call) and (not own(op.fn) or op.fn in (draw, default_rng) or op.fn.dynamic
                                     or type(op.fn.rule) is Rrule or op.fn.effects.nested):
            return False
    return True


def _last_uses(tape: Tape) -> Any:
    """Return, by position, the last operation that uses each operation; for the result a position after the tape."""
    last = np.zeros(len(tape.ops) + 1, np.int32)
    for op in tape.ops:
        for used in operands(op):
            last[used.id] = op.id
    last[tape.result.id] = len(tape.ops) + 1
    return last


def _tried(tape: Tape, segment: Segment, last: Any, least: int) -> SegmentLoop | None:
    """Return the loop of a segment, if necessary without its first or last pieces, or of pieces that begin later."""
    later = 0
    for first in range(PEELED + 1):
        for short in range(2):
            pieces = segment.pieces - first - short
            if pieces >= least:
                try:
                    return SegmentLoop(tape, Segment(segment.start + first * segment.period, segment.period, pieces),
                                       last)
                except NotALoop as unlike:
                    later = later or unlike.later
    if not later:
        return None
    return _tried(tape, Segment(segment.start + later, segment.period, segment.pieces - 1), last, least)
