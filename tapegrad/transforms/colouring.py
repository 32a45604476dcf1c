"""colouring: which columns of a sparse derivative are swept together: those of one colour, in whose sum each
number can still be read.

Greedily, a column after the other, those with most numbers first; the colours that are taken are the bits of an
integer, one for each row. Gebremedhin, Manne and Pothen (2005), What color is your Jacobian?
"""

from __future__ import annotations

from typing import Any

import numpy as np


def colours_of_columns(pattern: Any) -> Any:
    """Return a colour for each column of a pattern, so that no row has two of one colour; -1
    for a column that is empty.

    >>> from scipy.sparse import csr_array
    >>> colours_of_columns(csr_array(np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool)))
    array([1, 0, 1, 0])
    """
    by_column = pattern.tocsc()
    taken = [0] * pattern.shape[0]
    colours = [-1] * pattern.shape[1]
    for j, rows in _largest_first(by_column.indptr, by_column.indices):
        used = 0
        for i in rows:
            used |= taken[i]
        bit = ~used & (used + 1)
        for i in rows:
            taken[i] |= bit
        colours[j] = bit.bit_length() - 1
    return np.array(colours, np.int64)


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
    for j, neighbours in _largest_first(pattern.indptr, pattern.indices):
        used = 0
        for i in neighbours:
            bit = bits[i]
            used |= taken[i] & (bit - 1) | bit  # of one that has no colour yet all are taken: bit - 1 is -1
        bits[j] = bit = ~used & (used + 1)
        for i in neighbours:
            taken[i] |= bit
        colours[j] = bit.bit_length() - 1
    return np.array(colours, np.int64)


def _largest_first(starts: Any, indices: Any) -> Any:
    """Yield the columns that name something, and what each names."""
    counts = np.diff(starts)
    order = np.argsort(-counts, kind="stable")
    bounds, flat = starts.tolist(), indices.tolist()
    return [(j, flat[bounds[j] : bounds[j + 1]]) for j in order[counts[order] > 0].tolist()]
