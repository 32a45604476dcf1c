"""layout: the memory layout of the arrays that NumPy makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad.rules.types.family import number
from tapegrad.tape.spec import Spec


def by_order(itemsize: int, shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a new array without gaps; `order` lists its axes from the innermost outwards."""
    strides, step = [0] * len(shape), itemsize
    for axis in order:
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def row_by_row(itemsize: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a new array in C order."""
    return by_order(itemsize, shape, range(len(shape) - 1, -1, -1))


def column_by_column(itemsize: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a new array in Fortran order."""
    return by_order(itemsize, shape, range(len(shape)))


def array(dtype: Any, shape: Sequence[int], strides: Any = ()) -> Spec:
    """Return the spec of an array. `strides` defaults to C order; None means unknown."""
    shape = tuple(shape)
    if strides == ():
        strides = row_by_row(dtype.itemsize, shape)
    return Spec(np.ndarray, dtype, shape, strides)


def made(dtype: Any, shape: Sequence[int], like: Sequence[Spec] = ()) -> Spec:
    """Return the spec of an elementwise result of arrays with the layouts `like`; with no axes it is a scalar."""
    if not shape:
        return number(dtype)
    return array(dtype, shape, together_in_memory(dtype.itemsize, tuple(shape), like))


def together_in_memory(itemsize: int, shape: tuple[int, ...], like: Sequence[Spec]) -> tuple[int, ...] | None:
    """Return the strides of a new array that NumPy computes from others in order "K": its axes are sorted as theirs."""
    if all(x.is_contiguous and (x.shape == shape or not x.shape) for x in like):
        return row_by_row(itemsize, shape)
    rows = []
    for x in like:
        if x.strides is None and x.shape:
            return None
        steps = [0 if n == 1 else step for n, step in zip(x.shape, x.strides or ())]
        rows.append([0] * (len(shape) - len(steps)) + steps)
    return by_order(itemsize, shape, sorted_axes(len(shape), rows))


def sorted_axes(ndim: int, rows: Sequence[Sequence[int]]) -> list[int]:
    """Return the axes from the innermost outwards, as NumPy's iterator sorts them by the strides of its operands."""
    order = list(range(ndim - 1, -1, -1))
    for i in range(1, ndim):
        place = i
        for j in range(i - 1, -1, -1):
            swaps = _swaps(rows, order[i], order[j])
            if swaps is False:
                break
            if swaps:
                place = j
        order.insert(place, order.pop(i))
    return order


def _swaps(rows: Sequence[Sequence[int]], outer: int, inner: int) -> bool | None:
    """Return whether the strides place `outer` inside `inner`; None if they do not decide."""
    found = None
    for row in rows:
        if row[outer] and row[inner]:
            if abs(row[inner]) <= abs(row[outer]):
                found = False
            elif found is None:
                found = True
    return found


def copied(dtype: Any, x: Spec, order: str = "K", shape: Any = None) -> Spec:
    """Return the spec of a copy of an array in another dtype, or of a new array like it."""
    shape = x.shape if shape is None else tuple(shape)
    if order == "A":
        order = "F" if x.layout == "F" else "C"
    if order == "C" or (order == "K" and (x.is_contiguous or len(shape) != x.ndim)):
        return array(dtype, shape)
    if order == "F" or x.layout == "F":
        return array(dtype, shape, column_by_column(dtype.itemsize, shape))
    if x.strides is None:
        return array(dtype, shape, None)
    steps = x.strides
    inwards = sorted(range(x.ndim), key=lambda axis: (-abs(steps[axis]), axis))
    return array(dtype, shape, by_order(dtype.itemsize, shape, inwards[::-1]))


def reshaped(x: Spec, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the strides of an array in another shape: of the view, or of the copy if none exists; None if unknown."""
    if x.strides is None:
        return None
    return view_strides(x, shape) or row_by_row(x.itemsize, shape)


def view_strides(x: Spec, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the strides of a view in another shape, None if only a copy has that shape."""
    if x.is_contiguous:
        return row_by_row(x.itemsize, shape)
    if x.strides is None:
        return None
    old = [(n, step) for n, step in zip(x.shape, x.strides) if n != 1]
    new: list[int] = []
    i, j, at, k = 0, 1, 0, 1
    while at < len(shape) and i < len(old):
        have, had = shape[at], old[i][0]
        while have != had:  # until both sides have as many elements
            if have < had:
                have, k = have * shape[k], k + 1
            else:
                had, j = had * old[j][0], j + 1
        if any(a[1] != b[0] * b[1] for a, b in pairwise(old[i:j])):
            return None
        new += by_order(old[j - 1][1], shape[at:k], range(k - at - 1, -1, -1))
        i, j, at, k = j, j + 1, k, k + 1
    return tuple(new + [new[-1] if new else x.itemsize] * (len(shape) - len(new)))


def whole_shape(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """Return a shape with -1 replaced by the missing length; raise ValueError if the shape does not fit."""
    if -1 in shape:
        rest = -math.prod(shape)
        if list(shape).count(-1) > 1 or not rest or size % rest:
            raise ValueError(f"{size} numbers have no shape {tuple(shape)}")
        shape = [size // rest if n == -1 else n for n in shape]
    if math.prod(shape) != size:
        raise ValueError(f"{size} numbers have no shape {tuple(shape)}")
    return tuple(shape)
