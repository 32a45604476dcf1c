"""NumPy's functions that join and split arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tapegrad import ops
from tapegrad.frontends.common import as_array, as_elements, columns, laid, static
from tapegrad.frontends.numpy.shape import (
    along_axis,
    atleast,
    common_dtype,
    integers,
    moveaxis,
    numpy_dtype,
    rank,
    ravel,
    with_rank,
)
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.kinds import Array, Axis, DType
from tapegrad.ops.shape import along
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import means, register

# -- joining


def converted(arrays: Any, dtype: DType, casting: Any) -> list[Any]:
    """Return the arrays to be joined, each cast to `dtype`."""
    xs = [as_array(a) for a in arrays]
    if dtype is None:
        return xs
    for x in xs:
        if not np.can_cast(numpy_dtype(x), dtype, casting or "same_kind"):
            raise TypeError(f"Cannot cast array data from {numpy_dtype(x)!r} to {np.dtype(dtype)!r} by the rule "
                            f"{casting or 'same_kind'!r}")
    return [ops.astype(x, dtype=np.dtype(dtype)) for x in xs]


@means(np.concatenate)
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Any:
    xs = converted(arrays, dtype, casting)
    if axis is None:  # Python numbers are raveled too, and need the dtype that promotion gives them beside the arrays
        bare = [type(plain(x)) in PYTHON for x in xs]
        dtype = common_dtype(*xs) if any(bare) else None
        return ops.concat(*[ravel(ops.astype(x, dtype=dtype) if alone else x) for x, alone in zip(xs, bare)], axis=0)
    return ops.concat(*xs, axis=static(axis))


@means(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return ops.stack(*converted(arrays, dtype, casting), axis=static(axis))


@means(np.column_stack)
def column_stack(tup: Any) -> Any:
    columns = [atleast(1, a) for a in tup]
    return concatenate([ops.expand_dims(x, axis=1) if rank(x) == 1 else x for x in columns], 1)


@means(np.block)
def block(arrays: Any) -> Any:
    blocks: list[Any] = []
    depth = _depth(arrays, blocks)
    if depth == 0:
        return ops.copy(arrays)
    ndim = max(depth, *map(rank, blocks))

    def join(part: Any, axis: int) -> Any:
        if isinstance(part, list):
            return ops.concat(*[join(p, axis + 1) for p in part], axis=axis)
        return with_rank(part, ndim)
    return join(arrays, ndim - depth)


def _depth(arrays: Any, blocks: list[Any]) -> int:
    """Return the depth of nested lists, and collect their blocks."""
    if not isinstance(arrays, list):
        if isinstance(arrays, tuple):
            raise TypeError("np.block takes nested lists of blocks, and no tuples")
        blocks.append(arrays)
        return 0
    depths = {_depth(part, blocks) for part in arrays}
    if len(depths) != 1:
        raise ValueError("np.block: lists must be nested equally deep, and none may be empty")
    return 1 + depths.pop()


def _places(obj: Any) -> Any:
    """Return the positions to insert at or delete: plain ints, a slice, or the given array, perhaps a mask."""
    obj = static(obj) if isinstance(obj, Traced) else obj
    return obj if type(obj) is np.ndarray else static(obj) if isinstance(obj, Traced) else integers(obj)


@means(np.insert)
@laid(columns)
def insert(arr: Array, obj: Any, values: Array, axis: Axis = None) -> Any:
    x, axis = along_axis(arr, axis)
    place, new, shape = _places(obj), as_elements(values, numpy_dtype(x)), shape_of(x)
    old = np.arange(shape[axis])
    count = len(np.insert(old, place, 0)) - len(old)
    if count == 1:  # at one position any number of values can be inserted
        new = with_rank(new, len(shape))
        if not isinstance(place, slice) and np.ndim(place) == 0:
            new = moveaxis(new, 0, axis)
        count = shape_of(new)[axis]
    new = ops.broadcast_to(new, (*shape[:axis], count, *shape[axis + 1:]))
    return ops.take(ops.concat(x, new, axis=axis), np.insert(old, place, len(old) + np.arange(count)), axis=axis)


@means(np.delete)
def delete(arr: Array, obj: Any, axis: Axis = None) -> Any:
    x, axis = along_axis(arr, axis)
    places = _places(obj)
    rest = np.delete(np.arange(shape_of(x)[axis]), places)
    one = isinstance(places, slice) or (np.size(places) == 1 and np.asarray(places).dtype.kind in "iu")
    # NumPy's two code paths, which differ in the memory order of the result
    return _kept(x, rest, axis) if one else x[along(axis, rest)]


@laid(columns)
def _kept(x: Array, places: Any, axis: int) -> Any:
    return ops.take(x, places, axis=axis)


# -- splitting


@means(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    x, cuts, axis = as_array(ary), integers(indices_or_sections), static(axis)
    axis = normalize_axis_index(axis, rank(x))
    if not isinstance(cuts, tuple):
        if cuts <= 0:
            raise ValueError("number sections must be larger than 0.")
        longer = shape_of(x)[axis] % cuts  # this many parts have one element more than the others
        length = shape_of(x)[axis] // cuts
        cuts = tuple(i * length + min(i, longer) for i in range(1, cuts))
    return [x[along(axis, slice(start, end))] for start, end in zip((0, *cuts), (*cuts, None))]


@means(np.split)
def split(ary: Array, indices_or_sections: Any, axis: int = 0) -> Any:
    x, cuts = as_array(ary), integers(indices_or_sections)
    if not isinstance(cuts, tuple) and shape_of(x)[axis] % cuts:
        raise ValueError("array split does not result in an equal division")
    return array_split(x, cuts, axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    if not rank(x):
        raise ValueError("Input array must be at least 1-d.")
    axis = normalize_axis_index(static(axis), rank(x))
    return tuple(x[along(axis, i)] for i in range(shape_of(x)[axis]))


if hasattr(np, "unstack"):  # from NumPy 2.1 on
    register(np.unstack, unstack)
