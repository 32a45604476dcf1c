"""patterns: the columns on which each row of a derivative depends, as a sparse array of bools or, while they are few,
as maps from rows to columns, whose rows are selected by plain indexing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numbers.lazy import Lazy
from tapegrad.transforms.axis_labels import Labels

sparse: Any = Lazy("scipy.sparse")
MOST = 1 << 28  # most entries of a pattern: 2 GiB
FEW = 32  # most maps of a pattern, with one column per row each


class Maps:
    """A pattern that is the union of some maps: arrays with one column for each row, -1 for none."""

    __slots__ = ("maps", "shape")

    def __init__(self, maps: Sequence[Any], width: int) -> None:
        self.maps, self.shape = tuple(maps), (len(maps[0]), width)

    def written(self) -> Any:
        """Return the pattern as a sparse array."""
        maps = in_order(self.maps)
        columns, n = np.stack(maps, axis=1), len(maps)
        kept = np.empty(columns.shape, bool)
        for k, each in enumerate(maps):
            kept[:, k] = each >= 0 if not k else (each >= 0) & (each != maps[k - 1])
        many = np.count_nonzero(kept)
        ends = np.arange(1, len(kept) + 1) * n if many == kept.size else np.cumsum(kept @ np.ones(n, np.int32))
        starts = np.concatenate([[0], ends]).astype(columns.dtype)
        found = sparse.csr_array((np.ones(many, bool), columns.ravel() if many == kept.size else columns[kept], starts),
                                 self.shape)
        found.has_canonical_format = True
        return found

    def rows(self, places: Any) -> Maps:
        """Return the pattern of some rows, with empty ones at places below 0."""
        empty = places < 0
        if not empty.any():
            return Maps([each[places] for each in self.maps], self.shape[1])
        if not self.shape[0]:
            return Maps([np.full(len(places), -1, np.int32)], self.shape[1])
        return Maps([np.where(empty, -1, each[places]) for each in self.maps], self.shape[1])


def in_order(arrays: Sequence[Any]) -> list[Any]:
    """Return the arrays with the numbers in each place sorted, ascending from array to array: for so few per place,
    comparing whole arrays is faster than `sort`. Batcher (1968), Sorting networks and their applications.
    """
    found, n = list(arrays), len(arrays)
    p = 1
    while p < n:
        k = p
        while k:
            for start in range(k % p, n - k, 2 * k):
                for i in range(start, min(start + k, n - k)):
                    if i // (2 * p) == (i + k) // (2 * p):
                        found[i], found[i + k] = np.minimum(found[i], found[i + k]), np.maximum(found[i], found[i + k])
            k //= 2
        p *= 2
    return found


def identity(n: int, start: int, width: int) -> Maps:
    """Return the pattern of `n` numbers that are the columns from `start` on."""
    return Maps([np.arange(start, start + n, dtype=np.int32 if width < 2**31 else np.int64)], width)


def written(part: Any) -> Any:
    """Return a pattern as a sparse array."""
    return part.written() if type(part) is Maps else part


def named(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Return the pattern with entries at the given rows and columns."""
    return sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), shape)


def union(found: Sequence[Any]) -> Any:
    """Return the union of some patterns, None if there are none."""
    parts = list({id(part): part for part in found}.values())
    if len(parts) < 2:
        return parts[0] if parts else None
    if all(type(part) is Maps for part in parts):
        maps = {id(each): each for part in parts for each in part.maps}
        if len(maps) <= FEW:
            return Maps(list(maps.values()), parts[0].shape[1])
    total = written(parts[0])
    for part in parts[1:]:
        total = total + written(part)
    return total


def all_of(part: Any) -> Any:
    """Return one row with all columns of a pattern."""
    columns = np.unique(np.concatenate(part.maps) if type(part) is Maps else part.indices)
    columns = columns[columns >= 0]
    return named(np.zeros_like(columns), columns, (1, part.shape[1]))


def stacked(parts: Sequence[Any]) -> Any:
    """Return the patterns of several values, one below the other."""
    if len(parts) == 1:
        return parts[0]
    if not all(type(part) is Maps for part in parts):
        return sparse.vstack([written(part) for part in parts], format="csr")
    many = max(len(part.maps) for part in parts)
    columns = [[*part.maps, *[np.full(part.shape[0], -1, np.int32)] * (many - len(part.maps))] for part in parts]
    return Maps([np.concatenate(each) for each in zip(*columns)], parts[0].shape[1])


def rows_of(part: Any, places: Any) -> Any:
    """Return the pattern of some rows of another, with empty ones at places below 0."""
    if len(places) == part.shape[0] and np.array_equal(places, np.arange(len(places))):
        return part
    if type(part) is Maps:
        _check(len(part.maps) * len(places))
        return part.rows(places)
    counts = np.diff(part.indptr)
    empty = places < 0
    _check(int(np.where(empty, 0, counts[places] if len(counts) else 0).sum()))
    if empty.any():
        part = sparse.vstack([part, named([], [], (1, part.shape[1]))], format="csr")
    return part[np.where(empty, part.shape[0] - 1, places)]


def _check(many: int) -> None:
    if many > MOST:
        raise ArgumentError(
            f"the pattern of a derivative has {many:,} entries: it is not sparse",
            None,
            "tg.jvp, tg.hvp or tg.jacobian",
        )


def spread(part: Any, shape: tuple[int, ...], labels: Labels, shape_y: tuple[int, ...], labels_y: Labels) -> Any:
    """Return the pattern of a value that depends on another wherever their places along shared labels agree."""
    if shape == shape_y and labels == labels_y and len(set(labels)) == len(labels) == len(shape):
        return part
    shared = {
        label: n
        for label, n in zip(labels, shape)
        if n > 1 and label in labels_y and shape_y[labels_y.index(label)] == n
    }
    here, there = (_numbering(of, shape_, shared) for of, shape_ in ((labels, shape), (labels_y, shape_y)))
    groups = math.prod(shared.values())
    if groups != len(here):
        part = all_of(part) if groups == 1 else named(here, np.arange(len(here)), (groups, len(here))) @ written(part)
    return rows_of(part, there)


def _numbering(labels: Labels, shape: tuple[int, ...], shared: dict[Hashable, int]) -> Any:
    """Return for each number of a value, flattened, its index along the shared axes."""
    found, step = np.zeros(shape, np.int64), math.prod(shared.values())
    for label, n in shared.items():
        step //= n
        axis = labels.index(label)
        found += (np.arange(n) * step).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return found.ravel()


def place(labels: Labels, shape: tuple[int, ...], at: dict[Hashable, Any], count: int) -> Any:
    """Return the flat indices of the numbers at some places along axes; an axis of length 1 is broadcast."""
    found: Any = np.zeros(count, np.int64)
    for label, n in zip(labels, shape):
        found = found * n + (at[label] if n > 1 else 0)
    return found
