"""repeat_detection: finds repeated segments of a tape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tapegrad.optimise.cse import number
from tapegrad.tape.tape import Call, Constant, Guard, Operation, Tape

# operations from the middle of a tape: enough to detect a loop that fills most of it, in a fraction of the memory
SAMPLE = 8192
CANDIDATES = 2  # periods tried for each window length
WINDOWS = 10  # window lengths: 1, 2, 4 … 512


class Segment(NamedTuple):
    """`pieces` consecutive pieces of `period` operations each, from position `start` in `tape.ops`. All pieces make the
    same calls on values of the same types.
    """

    start: int
    period: int
    pieces: int

    @property
    def stop(self) -> int:
        """The position after the last piece."""
        return self.start + self.period * self.pieces


def segments(tape: Tape, least: int, saved: int = 0) -> list[Segment]:
    """Return the repeated segments of a tape, disjoint and in order, with at least `least` pieces and `saved`
    operations more than one piece has. The calls' operands may differ.

    A period is guessed from the distances between equal operations. It holds as long as every operation equals the one
    a period before it: time linear in the length of the tape for each guess.
    """
    words: dict[Any, int] = {}
    tokens = np.fromiter((words.setdefault(_token(op), len(words)) for op in tape.ops), np.int32, len(tape.ops))
    return sorted(_found(tokens, len(tokens), least, saved))


def _found(tokens: Any, length: int, least: int, saved: int) -> Iterator[Segment]:
    open_ = [(0, length)]
    while open_:
        begin, end = open_.pop()
        if end - begin <= saved:
            continue
        part = tokens[begin:end]
        best = _best_found(part, least, saved)
        if best is None:
            continue
        segment = best._replace(start=best.start + begin)
        yield segment
        open_ += [(begin, segment.start), (segment.stop, end)]


def _best_found(tokens: Any, least: int, saved: int) -> Segment | None:
    """Return the best segment whose period is found in a sample from the middle; the sample grows until the segment
    covers nine tenths of the tape.
    """
    best: Segment | None = None
    length = len(tokens)
    for size in [size for size in (SAMPLE, length // 3) if SAMPLE <= size <= length // 3] + [length]:
        start = (length - size) // 2
        found = [segment for period in _periods(tokens[start:start + size], least)
                 for segment in _runs(tokens, period, least, saved)]
        best = max(found if best is None else [best, *found], key=_worth, default=None)
        if best is not None and 10 * best.period * best.pieces >= 9 * length:
            break
    return best


def _worth(segment: Segment) -> tuple[int, int]:
    """Return a sort key: the operations that a segment covers, to a hundredth, then the shortness of its pieces."""
    covered = segment.period * segment.pieces
    return covered - covered % max(1, covered // 100), -segment.period


def _periods(tokens: Any, least: int) -> set[int]:
    """Return the most frequent distances between equal operations, and between equal windows of 2, 4, 8 … operations.
    """
    periods: set[int] = set()
    tokens = tokens.astype(np.int64)  # keys of pairs may exceed 32 bits
    for power in range(WINDOWS):
        order = np.argsort(tokens, kind="stable")
        often = np.bincount(np.diff(order)[np.diff(tokens[order]) == 0])
        periods.update(period for period in np.argsort(often)[-CANDIDATES:].tolist() if often[period] >= least - 1)
        ahead = 1 << power
        if len(tokens) <= ahead:
            break
        tokens = np.unique(tokens[:-ahead] * (int(tokens.max()) + 1) + tokens[ahead:], return_inverse=True)[1]
    return periods


def _runs(tokens: Any, period: int, least: int, saved: int) -> Iterator[Segment]:
    """Yield the segments in which each operation equals the one a period before it."""
    alike = np.concatenate(([False], tokens[period:] == tokens[:-period], [False]))
    edges = np.flatnonzero(alike[1:] != alike[:-1]).reshape(-1, 2)
    enough = max(least - 1, -(-saved // period))  # pieces after the first
    for start, stop in edges[edges[:, 1] - edges[:, 0] >= enough * period].tolist():
        yield Segment(start, period, (stop - start) // period + 1)


def _token(op: Operation) -> Any:
    """Return a key that is equal for operations that a loop may merge: all but their values and their operands."""
    kinds = tuple([Operation if isinstance(arg, Operation) else type(arg) for arg in op.args])
    if type(op) is Call:
        fn = op.fn
        kwargs = tuple(sorted((name, number(value)) for name, value in op.kwargs.items())) if op.kwargs else ()
        # the position within the code may differ: Python specialises a loop as it runs
        return (id(fn), id(op.code), kinds, kwargs, op.spec)
    if type(op) is Guard:
        return ("guard", op.fact, number(op.expected), id(op.code))
    return ("constant", op.spec) if type(op) is Constant else ("alone", op.id)
