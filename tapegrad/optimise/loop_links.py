"""loop_links: links loops of a tape to the loops that collect values for them."""

from __future__ import annotations

from typing import Any

from tapegrad.optimise.repeat_detection import Segment
from tapegrad.optimise.segment_loop import Link, Listed, SegmentLoop
from tapegrad.tape.tape import Operation, Tape, operands


def linked(tape: Tape, loops: list[SegmentLoop], least: int) -> list[SegmentLoop]:
    """Return the loops that shorten the tape enough, each with its links to the loops that collect values for it.

    Linked loops have equally many runs: extra pieces at the ends of the longer one (a seed, an empty sum) are left out.
    """
    while loops:
        for rolled in loops:
            rolled.links, rolled.used_individually, rolled.reverse = {}, set(), False
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
        worth = [rolled for rolled in loops if 2 * len(rolled.used_individually) <= rolled.period * (rolled.pieces - 1)]
        if len(worth) == len(loops):
            break
        loops = worth
    return loops


def _links(rolled: SegmentLoop, source: SegmentLoop) -> tuple[list[Link], int | None]:
    """Return the links of a loop to an earlier one that pair runs and pieces in the same way: the way that covers most
    of its listed operands. If other operands pair with a neighbouring piece, return as well the operation of the body
    at which the runs should begin: the first that uses the later piece.
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
    """Restrict the segment of a loop to some pieces."""
    now = segments.get(rolled, rolled.segment)
    begin, end = (rolled.start + rolled.period * piece for piece in (pieces.start, pieces.stop))
    begin, end = max(now.start, begin), min(now.stop, end)
    if (begin, end) != (rolled.start, rolled.stop):
        segments[rolled] = Segment(begin, rolled.period, max(0, end - begin) // rolled.period)


def _find_singles(tape: Tape, loops: list[SegmentLoop]) -> None:
    """Find the values of single runs that are used individually: by operations outside, as first values of carried
    ones, or as arguments of a whole loop.
    """
    def used(op: Operation) -> None:
        for rolled in loops:
            if rolled.start < op.id <= rolled.stop and op in rolled.leaving:
                rolled.used_individually.add(op)
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
