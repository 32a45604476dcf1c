"""colouring: which columns of a sparse derivative are swept together: those of one colour, in whose sum each
number can still be read.

Greedily, a column after the other, those with most numbers first; the colours that are taken are the bits of an
integer, one for each row. Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? Of a large stencil most
columns are coloured before, all at once, by their number modulo a small one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LARGE = 2000  # columns from which on it pays to look for a stencil
ROWS = 256  # rows that tell what stencil it is
BITS = 62  # colours of which there is one bit each in an integer of NumPy's


def colours_of_columns(pattern: Any) -> Any:
    """Return a colour for each column of a pattern, so that no row has two of one colour; -1
    for a column that is empty.

    >>> from scipy.sparse import csr_array
    >>> colours_of_columns(csr_array(np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool)))
    array([1, 0, 1, 0])
    """
    by_column = pattern.tocsc()
    colours, taken = _of_stencil(pattern.tocsr(), by_column)
    for j, rows in _largest_first(by_column.indptr, by_column.indices, np.flatnonzero(colours < 0)):
        used = 0
        for i in rows:
            used |= taken[i]
        bit = ~used & (used + 1)
        for i in rows:
            taken[i] |= bit
        colours[j] = bit.bit_length() - 1
    return colours


def _of_stencil(by_row: Any, by_column: Any) -> tuple[Any, Any]:
    """Return the columns' numbers modulo `m` as their colours, -1 where two in a row agree, and the colours that are
    taken in each row; `m` is the least that tells the columns of most rows apart.
    """
    n, starts, columns = by_row.shape[1], by_row.indptr, by_row.indices
    counts = np.diff(starts)
    most, none = int(counts.max(initial=0)), (np.full(n, -1), [0] * by_row.shape[0])
    if n < LARGE or not 0 < most <= BITS // 2:
        return none
    picked = np.linspace(0, len(counts) - 1, ROWS).astype(int)
    sample = np.concatenate([columns[starts[i]:starts[i + 1]] for i in picked])
    of = np.repeat(np.arange(ROWS), counts[picked])
    # rows at an edge that goes round are few, and their columns coloured one by one
    m = next((m for m in range(most, 2 * most + 1) if _clashing(of, sample, m)[1] <= ROWS // 10), None)
    if m is None:
        return none
    rows = np.repeat(np.arange(len(counts)), counts)
    clash, _ = _clashing(rows, columns, m)
    colours = np.where(np.diff(by_column.indptr) > 0, np.arange(n) % m, -1)
    colours[columns[clash]] = -1
    left = np.unique(by_column.indices[np.repeat(colours < 0, np.diff(by_column.indptr))])  # rows that are met again
    if 4 * len(left) > len(counts):
        return none
    taken = dict.fromkeys(left.tolist(), 0)
    chosen = np.isin(rows, left, kind="table") & (colours[columns] >= 0)
    for i, colour in zip(rows[chosen].tolist(), colours[columns[chosen]].tolist()):
        taken[i] |= 1 << colour
    return colours, taken


def _clashing(rows: Any, columns: Any, m: int) -> tuple[Any, int]:
    """Return which columns, each of a row, agree with another of that modulo `m`, and in how many rows."""
    places = rows * m + columns % m
    clash = np.bincount(places)[places] > 1
    return clash, len(np.unique(rows[clash]))


def colours_of_symmetric(pattern: Any) -> Any:
    """Return a colour for each column of a symmetric pattern; -1 for a column that is empty.

    No two neighbours have one colour, and of two that have the same, each between them has a lower one: a restricted
    star colouring. So the number at [i, j] can be read in the row of whichever has the higher colour, or at [j, i].

    >>> from scipy.sparse import csr_array
    >>> arrow = np.eye(5, dtype=bool)
    >>> arrow[0], arrow[:, 0] = True, True
    >>> colours_of_symmetric(csr_array(arrow))
    array([0, 1, 1, 1, 1])
    """
    taken = [0] * pattern.shape[0]  # the colours of the neighbours of each
    colours = [-1] * pattern.shape[1]
    bits = [0] * pattern.shape[1]
    for j, neighbours in _largest_first(pattern.indptr, pattern.indices, np.arange(pattern.shape[1])):
        used = 0
        for i in neighbours:
            bit = bits[i]
            used |= taken[i] & (bit - 1) | bit  # of one that has no colour yet all are taken: bit - 1 is -1
        bits[j] = bit = ~used & (used + 1)
        for i in neighbours:
            taken[i] |= bit
        colours[j] = bit.bit_length() - 1
    return np.array(colours, np.int64)


def _largest_first(starts: Any, indices: Any, columns: Any) -> Any:
    """Return those of some columns that name something, and what each names."""
    counts = np.diff(starts)[columns]
    order = columns[np.argsort(-counts, kind="stable")][:np.count_nonzero(counts)]
    lengths = np.diff(starts)[order]
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[order] - ends + lengths, lengths)
    flat, bounds = indices[places].tolist(), [0, *ends.tolist()]
    return [(j, flat[a:b]) for j, a, b in zip(order.tolist(), bounds, bounds[1:])]
