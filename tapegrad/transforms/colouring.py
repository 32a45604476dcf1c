"""colouring: columns of a sparse derivative that can be swept together, because each number can be read from their sum.

Columns are coloured greedily one after another, those with the most entries first; the bits of an integer per row are
the colours taken there. Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? Most columns of a large
stencil are coloured beforehand, all at once, by their index modulo a small number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.transforms.patterns import sparse

LARGE = 2000  # number of columns from which a search for a stencil pays off
ROWS = 256  # number of rows sampled to recognise a stencil
BITS = 62  # number of colours that fit as bits in a NumPy integer


def colours_of_columns(pattern: Any) -> Any:
    """Return a colour for each column of a pattern so that no row has two of one colour; -1 for an empty column.

    >>> from scipy.sparse import csr_array
    >>> colours_of_columns(csr_array(np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool)))
    array([1, 0, 1, 0])
    """
    pattern = pattern.tocsr()
    colours = _of_stencil(pattern)
    by_column, taken = _left(pattern, colours)
    for j, rows in _largest_first(by_column.indptr, by_column.indices, np.flatnonzero(colours < 0)):
        used = 0
        for i in rows:
            used |= taken[i]
        bit = ~used & (used + 1)
        for i in rows:
            taken[i] |= bit
        colours[j] = bit.bit_length() - 1
    return colours


def colours_of_symmetric(pattern: Any) -> Any:
    """Return a colour for each column of a symmetric pattern; -1 for an empty column.

    Neighbours have different colours, and of two columns with the same colour, each column between them has a lower
    one: a restricted star colouring. The number at [i, j] or [j, i] can then be read in the row of whichever of i and j
    has the higher colour.

    >>> from scipy.sparse import csr_array
    >>> arrow = np.eye(5, dtype=bool)
    >>> arrow[0], arrow[:, 0] = True, True
    >>> colours_of_symmetric(csr_array(arrow))
    array([0, 1, 1, 1, 1])
    """
    pattern = pattern.tocsr()
    colours = _of_stencil(pattern)  # no two of one colour in a row
    near = np.flatnonzero(colours[pattern.indices] == np.repeat(colours, np.diff(pattern.indptr)))
    colours[pattern.indices[near[_rows_at(pattern, near) != pattern.indices[near]]]] = -1  # neighbours of one colour
    by_column, taken = _left(pattern, colours)
    bits = [1 << c if c >= 0 else 0 for c in colours.tolist()]
    for j, neighbours in _largest_first(by_column.indptr, by_column.indices, np.flatnonzero(colours < 0)):
        used = 0
        for i in neighbours:
            bit = bits[i]
            used |= taken[i] & (bit - 1) | bit  # without a colour: bit 0, bit - 1 is -1
        bits[j] = bit = ~used & (used + 1)
        for i in neighbours:
            taken[i] |= bit
        colours[j] = bit.bit_length() - 1
    return colours


def _of_stencil(pattern: Any) -> Any:
    """Return the columns' indices modulo `m` as their colours, -1 for columns that clash in a row or are empty; `m` is
    the least number that separates the columns of most rows. All are -1 if the pattern is no large stencil.
    """
    n, starts, columns = pattern.shape[1], pattern.indptr, pattern.indices
    counts = np.diff(starts)
    most, none = int(counts.max(initial=0)), np.full(n, -1)
    if n < LARGE or not 0 < most <= BITS // 2:
        return none
    picked = np.linspace(0, len(counts) - 1, ROWS).astype(int)
    sample = np.concatenate([columns[starts[i]:starts[i + 1]] for i in picked])
    of = np.repeat(np.arange(ROWS), counts[picked])
    # a periodic stencil has few rows at the edge, and their columns are coloured one by one
    m = next((m for m in range(most, 2 * most + 1) if _clashing(of, sample % m, m)[1] <= ROWS // 10), None)
    if m is None:
        return none
    colours = np.arange(n) % m
    filled = np.flatnonzero(counts)
    bits = (1 << colours).astype(np.uint32 if m <= 32 else np.uint64)[columns]
    clash = filled[np.bitwise_count(np.bitwise_or.reduceat(bits, starts[filled])) < counts[filled]]
    if 8 * len(clash) > len(counts):
        return none
    of, at = _entries(pattern, clash)
    met = np.zeros(n, bool)
    met[columns] = True
    colours[~met] = -1
    colours[columns[at[_clashing(of, colours[columns[at]], m)[0]]]] = -1
    return colours


def _clashing(rows: Any, colours: Any, m: int) -> tuple[Any, int]:
    """Return which (row, colour) pairs occur more than once, and the number of rows with such a pair."""
    places = rows * m + colours
    clash = np.bincount(places)[places] > 1
    return clash, len(np.unique(rows[clash]))


def _entries(pattern: Any, rows: Any) -> tuple[Any, Any]:
    """Return for each entry of some rows the index of its row among these, and the entry's position in memory."""
    lengths = np.diff(pattern.indptr)[rows]
    of = np.repeat(np.arange(len(rows)), lengths)
    return of, np.arange(len(of)) + (pattern.indptr[rows] - np.cumsum(lengths) + lengths)[of]


def _rows_at(pattern: Any, places: Any) -> Any:
    """Return the rows of the entries at some positions in memory."""
    return np.searchsorted(pattern.indptr, places, "right") - 1


def _left(pattern: Any, colours: Any) -> tuple[Any, Any]:
    """Return the pattern of the columns that have no colour yet, and for each row the colours taken there."""
    left = np.flatnonzero((colours < 0)[pattern.indices])
    if len(left) == pattern.nnz:
        return pattern.tocsc(), [0] * pattern.shape[0]
    rows = _rows_at(pattern, left)
    met = np.unique(rows)
    of, at = _entries(pattern, met)
    found = colours[pattern.indices[at]]
    taken = dict.fromkeys(met.tolist(), 0)
    for i, colour in zip(met[of[found >= 0]].tolist(), found[found >= 0].tolist()):
        taken[i] |= 1 << colour
    return sparse.csc_array((np.ones(len(left), bool), (rows, pattern.indices[left])), pattern.shape), taken


def _largest_first(starts: Any, indices: Any, columns: Any) -> Any:
    """Return the non-empty ones of some columns with their entries, those with the most entries first."""
    counts = np.diff(starts)[columns]
    order = columns[np.argsort(-counts, kind="stable")][:np.count_nonzero(counts)]
    lengths = np.diff(starts)[order]
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[order] - ends + lengths, lengths)
    flat, bounds = indices[places].tolist(), [0, *ends.tolist()]
    return [(j, flat[a:b]) for j, a, b in zip(order.tolist(), bounds, bounds[1:])]
