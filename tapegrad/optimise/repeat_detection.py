"""repeat_detection: where a tape repeats itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tapegrad.optimise.cse import number
from tapegrad.tape.tape import Call, Constant, Guard, Operation, Tape

# operations in the middle of a tape, in which a loop that fills most of it is known by a fraction of the memory
SAMPLE = 8192
CANDIDATES = 2  # periods that are tried, for each length of what is compared
WINDOWS = 10  # lengths: 1, 2, 4 … 512


class Segment(NamedTuple):
    """`pieces` of `period` operations each, one behind the other, from a position in `tape.ops` on: the same calls on
    values of the same types.
    """

    start: int
    period: int
    pieces: int

    @property
    def stop(self) -> int:
        """The position behind the last piece."""
        return self.start + self.period * self.pieces


def segments(tape: Tape, least: int, saved: int = 0) -> list[Segment]:
    """Return the repeated segments of a tape that do not overlap, in its order, of `least` pieces at least, so many
    operations longer than one of them; what the calls are made on may differ.

    A period is guessed from how far an operation is from the one before it that is like it, and holds as long as every
    operation is like the one a period before it: time linear in the length of the tape for each guess.
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
    """Return the best segment whose period is found in a sample from the middle; in a larger one where
    it does not cover nearly all.
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
    """Return what makes one segment better than another: what it covers, to a hundredth,
    then how short its pieces are.
    """
    covered = segment.period * segment.pieces
    return covered - covered % max(1, covered // 100), -segment.period


def _periods(tokens: Any, least: int) -> set[int]:
    """Return the distances that most operations have from the one before them that is alike, by itself and together
    with 1, 3, 7 … that follow.
    """
    periods: set[int] = set()
    tokens = tokens.astype(np.int64)  # of pairs there may be as many as that
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
    """Yield the stretches in which each operation is like the one a period before it."""
    alike = np.concatenate(([False], tokens[period:] == tokens[:-period], [False]))
    edges = np.flatnonzero(alike[1:] != alike[:-1]).reshape(-1, 2)
    enough = max(least - 1, -(-saved // period))  # pieces but one
    for start, stop in edges[edges[:, 1] - edges[:, 0] >= enough * period].tolist():
        yield Segment(start, period, (stop - start) // period + 1)


def _token(op: Operation) -> Any:
    """Return what two operations have in common that a loop may make one of: all but the values, and
    which operations they use.
    """
    kinds = tuple([Operation if isinstance(arg, Operation) else type(arg) for arg in op.args])
    if type(op) is Call:
        fn = op.fn
        kwargs = tuple(sorted((name, number(value)) for name, value in op.kwargs.items())) if op.kwargs else ()
        # the place within the code may differ: Python specialises a loop as it runs
        return (id(fn), id(op.code), kinds, kwargs, op.spec)
    if type(op) is Guard:
        return ("guard", op.fact, number(op.expected), id(op.code))
    return ("constant", op.spec) if type(op) is Constant else ("alone", op.id)
