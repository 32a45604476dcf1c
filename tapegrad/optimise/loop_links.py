"""loop_links: which of a tape's loops go through what others collect."""

from __future__ import annotations

from typing import Any

from tapegrad.optimise.repeat_detection import Segment
from tapegrad.optimise.segment_loop import Link, Listed, SegmentLoop
from tapegrad.tape.tape import Operation, Tape, operands


def linked(tape: Tape, loops: list[SegmentLoop], least: int) -> list[SegmentLoop]:
    """Return the loops that are worth it, each of which knows what others collect for it, and
    what it collects for them.

    Two of which one goes through what the other collects have as many runs: the first or last pieces of the longer one,
    those of a seed or of an empty sum, are left out.
    """
    while loops:
        for rolled in loops:
            rolled.links, rolled.singles, rolled.reverse = {}, set(), False
        other: dict[SegmentLoop, Segment] = {}
        for n, rolled in enumerate(loops):
            for source in loops[:n]:
                links, early = _links(rolled, source)
                if early is not None and not rolled.turned:
                    other[rolled] = Segment(rolled.start + early, rolled.period, rolled.pieces - 1)
                    continue
                for link in links:
                    _cut(other, rolled, link.runs)
                    _cut(other, source, link.pieces)
                    rolled.link(link)
        if other:
            loops = [left for rolled in loops if (left := rolled.moved(other.get(rolled), least)) is not None]
            continue
        _find_singles(tape, loops)
        worth = [rolled for rolled in loops if 2 * len(rolled.singles) <= rolled.period * (rolled.pieces - 1)]
        if len(worth) == len(loops):
            break
        loops = worth
    return loops


def _links(rolled: SegmentLoop, source: SegmentLoop) -> tuple[list[Link], int | None]:
    """Return the links of a loop to an earlier one of which run k of the one goes with the same piece of the other:
    most of what it is listed. Where some goes with the piece beside that, return the operation of the body that the
    runs are to begin with, the first that uses what comes of the next piece.
    """
    ways: dict[Any, list[Link]] = {}
    for use in rolled.listed:
        for link in Link.found(use, source):
            ways.setdefault((link.backwards, link.piece), []).append(link)
    best = max(ways.values(), key=len, default=[])
    linked = {link.use for link in best}
    beside = [link for links in ways.values() for link in links if link.use not in linked]
    if not beside:
        return best, None
    later = linked if (beside[0].piece > best[0].piece) == best[0].backwards else {link.use for link in beside}
    body = [(j, uses) for j, uses in enumerate(rolled.uses) if j not in rolled.same]
    return best, next(j for j, uses in body if any(type(use) is Listed and use in later for use in uses)) or None


def _cut(segments: dict[SegmentLoop, Segment], rolled: SegmentLoop, pieces: range) -> None:
    """Say that of a loop these pieces alone are one."""
    now = segments.get(rolled, rolled.segment)
    begin, end = (rolled.start + rolled.period * piece for piece in (pieces.start, pieces.stop))
    begin, end = max(now.start, begin), min(now.stop, end)
    if (begin, end) != (rolled.start, rolled.stop):
        segments[rolled] = Segment(begin, rolled.period, max(0, end - begin) // rolled.period)


def _find_singles(tape: Tape, loops: list[SegmentLoop]) -> None:
    """Find what of the runs of loops is used by itself: by an operation outside, as a first value, as
    what all runs are given.
    """
    def used(op: Operation) -> None:
        for rolled in loops:
            if rolled.start < op.id <= rolled.stop and op in rolled.leaving:
                rolled.singles.add(op)
    at = 0
    for start, stop in [*((rolled.start, rolled.stop) for rolled in loops), (len(tape.ops), len(tape.ops))]:
        for op in tape.ops[at:start]:
            for arg in operands(op):
                used(arg)
        at = stop
    used(tape.result)
    for rolled in loops:
        for op in rolled.used():
            used(op)
