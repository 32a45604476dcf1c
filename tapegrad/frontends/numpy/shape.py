"""NumPy's functions that rearrange elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.lib.stride_tricks import as_strided

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, cast, columns, keywords, laid, static
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import Traced, tracer_of
from tapegrad.rules.registry import means, register
from tapegrad.trace import views


def rank(x: Array) -> int:
    """Return the number of dimensions. Only that is guarded, so a tape may be replayed at other shapes."""
    if isinstance(x, Traced) and not hasattr(x, "ndim"):  # a number, which a replay may replace by an array
        x._tracer.guard(x._op, "ndim", 0)
        return rank(x._val)
    return getattr(x, "ndim", 0)


def numpy_dtype(x: Any) -> Any:
    """Return the dtype of an array, or of the array that NumPy makes of a plain number."""
    dtype = dtype_of(x)
    return np.dtype(x.__class__) if dtype is None else dtype


def common_dtype(*xs: Any) -> Any:
    """Return the dtype of NumPy's arithmetic, in which plain numbers adapt to arrays."""
    return np.result_type(*map(_kind, xs))


def _kind(x: Any) -> Any:
    if not isinstance(x, (Traced, np.ndarray, np.generic)):
        return x  # a plain number, or a dtype
    dtype = dtype_of(x)
    return plain(x).__class__(0) if dtype is None else dtype


def integers(x: Any) -> Any:
    """Return a shape, an axis or counts as plain ints, from any type."""
    return static(list(x) if rank(x) else x)


def truncated(x: Any) -> Any:
    """Return counts as plain ints with floats truncated, as NumPy's functions that call `int` do."""
    return tuple(map(truncated, x)) if isinstance(x, (list, tuple)) or rank(x) else int(x)


def along_axis(a: Array, axis: Any) -> tuple[Any, int]:
    """Return an array and a nonnegative axis to work along; the flattened array and 0 if `axis` is None."""
    x = as_array(a)
    return (ravel(x), 0) if axis is None else (x, normalize_axis_index(static(axis), rank(x)))


# -- queries of the shape. The proxy's attributes record the guards.


@means(np.shape, constant=True)
def shape(a: Any) -> tuple[int, ...]:
    a = as_array(a)
    return a.shape if rank(a) else ()


@means(np.ndim, constant=True)
def ndim(a: Array) -> int:
    return rank(as_array(a))


@means(np.size, constant=True)
def size(a: Any, axis: Any = None) -> int:
    a = as_array(a)
    axes = range(rank(a)) if axis is None else normalize_axis_tuple(static(axis), rank(a))
    return math.prod(shape(a)[i] for i in axes)


# -- reshaping


def in_fortran_order(order: str | None) -> bool:
    """Return whether the first axis runs fastest; refuse an order that depends on the memory layout."""
    if order not in ("C", "F", None):
        raise UnknownFunction(f"order={order!r} depends on the memory layout, which is not recorded",
                              user_location(), "order='C' or order='F'")
    return order == "F"


@means(np.reshape)
def reshape(a: Array, /, shape: Any = None, order: str | None = "C", *, copy: Any = None) -> Any:
    x, shape = as_array(a), integers(shape)
    if copy:
        x = ops.copy(x)
    elif copy is False:
        np.reshape(plain(x), shape, order, copy=False)  # type: ignore[arg-type]  # ValueError unless it is a view
    if not in_fortran_order(order):
        return ops.reshape(x, shape)
    return ops.permute_dims(ops.reshape(ops.permute_dims(x), shape[::-1] if isinstance(shape, tuple) else shape))


@means(np.ndarray.reshape)
def reshape_method(a: Array, *shape: Any, order: str | None = "C", copy: Any = None) -> Any:
    return reshape(a, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@means(np.ravel, np.ndarray.ravel)
def ravel(a: Array, order: str | None = "C") -> Any:
    order = "F" if in_fortran_order(order) else "C"
    return reshape(views.arranged(as_array(a), order), (-1,), order)  # contiguous, unlike what a reshape returns


@means(np.ndarray.flatten)
def flatten(a: Any, order: str | None = "C") -> Any:
    return ops.copy(reshape(a, (-1,), order))  # never a view


@means(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    return ops.expand_dims(as_array(a), axis=static(axis))


@means(np.squeeze, np.ndarray.squeeze)
def squeeze(a: Array, axis: Axis = None) -> Any:
    return ops.squeeze(as_array(a), **keywords(axis=axis))


_NEW_AXES: dict[int, dict[int, Any]] = {1: {0: 0}, 2: {0: (0, 1), 1: 0}, 3: {0: (0, 1, 2), 1: (0, 2), 2: 2}}


def atleast(n: int, a: Array) -> Any:
    """Return an array of at least `n` dimensions."""
    x = as_array(a)
    axes = _NEW_AXES[n].get(rank(x))
    return x if axes is None else ops.expand_dims(x, axis=axes)


def _atleast_each(n: int, *arys: Any) -> Any:
    return atleast(n, arys[0]) if len(arys) == 1 else tuple(atleast(n, a) for a in arys)


for _n, _fn in enumerate((np.atleast_1d, np.atleast_2d, np.atleast_3d), 1):
    register(_fn, partial(_atleast_each, _n))


def with_rank(x: Array, ndim: int) -> Any:
    """Return an array of at least `ndim` dimensions, new ones in front."""
    new = tuple(range(ndim - rank(x)))
    return ops.expand_dims(x, axis=new) if new else x


# -- permuting the axes


@means(np.transpose)
def transpose(a: Array, axes: Any = None) -> Any:
    axes = integers(axes)
    return ops.permute_dims(as_array(a), **keywords(axes=(axes,) if isinstance(axes, int) else axes))


@means(np.ndarray.transpose)
def transpose_method(a: Array, *axes: Any) -> Any:
    return transpose(a, axes[0] if len(axes) == 1 else axes or None)


def moved(a: Array, move: Callable[..., Any], *args: Any) -> Any:
    """Permute the axes as NumPy's function `move` permutes an array whose strides are the numbers of its axes."""
    x = as_array(a)
    numbered = as_strided(np.empty(1), (1,) * rank(x), range(rank(x)))  # type: ignore[arg-type]
    return ops.permute_dims(x, axes=move(numbered, *map(static, args)).strides)


@means(np.swapaxes, np.ndarray.swapaxes)
def swapaxes(a: Array, axis1: int, axis2: int) -> Any:
    return moved(a, np.swapaxes, axis1, axis2)


@means(np.moveaxis)
def moveaxis(a: Array, source: Any, destination: Any) -> Any:
    return moved(a, np.moveaxis, source, destination)


@means(np.matrix_transpose, np.linalg.matrix_transpose, np.ndarray.mT)
def matrix_transpose(x: Array, /) -> Any:
    return moved(x, np.matrix_transpose)


register(np.ndarray.T, ops.permute_dims)

# -- reversing and rolling


@means(np.flip)
def flip(m: Array, axis: Axis = None) -> Any:
    return ops.flip(as_array(m), **keywords(axis=axis))


@means(np.roll)
def roll(a: Array, shift: Any, axis: Axis = None) -> Any:
    return ops.roll(as_array(a), truncated(shift), **keywords(axis=axis))


@means(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    x = as_array(m)
    given = static(tuple(axes))
    if len(given) != 2:
        raise ValueError("len(axes) must be 2.")
    if not all(-rank(x) <= axis < rank(x) for axis in given):
        raise ValueError(f"Axes={given} out of range for array of ndim={rank(x)}.")
    plane = normalize_axis_tuple(given, rank(x))  # raises for an axis given twice
    turns = static(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, plane)
    return swapaxes(flip(x, plane[1]), *plane) if turns == 1 else flip(swapaxes(x, *plane), plane[1])


# -- stretching and repeating


@means(np.broadcast_to)
def broadcast_to(array: Array, shape: Any, subok: bool = False) -> Any:
    return ops.broadcast_to(as_array(array), integers(shape))


@means(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    xs = [as_array(a) for a in args]
    shape = np.broadcast_shapes(*map(shape_of, xs))
    tracer = tracer_of(xs)
    # a constant is recorded too: its copy may be written to
    return tuple(x if isinstance(x, np.ndarray) and shape_of(x) == shape
                 else views.lock(tracer.record(ops.broadcast_to, (x, shape), {})) for x in xs)


@means(np.tile)
def tile(A: Array, reps: Any) -> Any:
    return ops.tile(as_array(A), integers(reps))


@means(np.repeat, np.ndarray.repeat)
def repeat(a: Array, repeats: Any, axis: Axis = None) -> Any:
    if isinstance(plain(repeats), np.ndarray):  # a list or a number may hold floats
        np.empty(0, dtype_of(repeats)).astype(np.intp, casting="safe")  # TypeError, in NumPy's words
    counts = np.asarray(truncated(repeats), int)
    if counts.size == 1:
        return ops.repeat(as_array(a), operator.index(counts.item()), **keywords(axis=axis))
    x, axis = along_axis(a, axis)
    return ops.take(x, np.repeat(np.arange(shape_of(x)[axis]), counts), axis=axis)


@means(np.pad)
@laid(columns)
def pad(array: Array, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    x = as_array(array)
    widths = _widths(pad_width, rank(x))
    if not any(map(any, widths)):
        return ops.copy(x)
    if mode == "constant":
        return _pad_constant(x, widths, **kwargs)
    if mode not in ("edge", "reflect", "symmetric", "wrap") or kwargs.pop("reflect_type", "even") != "even":
        raise UnknownFunction(f"np.pad with mode={mode!r} and these keywords is not supported", user_location(),
                              "mode 'constant', 'edge', 'reflect', 'symmetric' or 'wrap'")
    for axis, width in enumerate(widths):
        if width != (0, 0):  # np.pad of an array of positions shows which element goes where
            x = ops.take(x, np.pad(np.arange(shape_of(x)[axis]), width, mode, **kwargs), axis=axis)
    return x


def _widths(pad_width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """Return how many elements to add before and after, a pair for each axis."""
    if isinstance(pad_width, dict):
        of_axis = {normalize_axis_index(axis, ndim): pair for axis, pair in pad_width.items()}
        pad_width = [np.broadcast_to(static(of_axis.get(axis, 0)), 2) for axis in range(ndim)]
    widths = np.asarray(integers(pad_width))
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    return tuple((before, after) for before, after in np.broadcast_to(widths, (ndim, 2)).tolist())


def _pad_constant(x: Any, widths: tuple[tuple[int, int], ...], constant_values: Any = 0) -> Any:
    value = as_array(constant_values)
    if not shape_of(value):
        value = _written(value, x)
        return ops.pad(x, widths) if not isinstance(value, Traced) and value == 0 else ops.pad(x, widths, value)
    values = ops.broadcast_to(value, (rank(x), 2))
    for axis, (before, after) in enumerate(widths):  # corners take the value of the later axis
        for side, width in enumerate([(before, 0), (0, after)]):
            if any(width):
                x = ops.pad(x, tuple(width if i == axis else (0, 0) for i in range(rank(x))),
                            _written(values[axis, side], x))
    return x


def _written(value: Array, x: Array) -> Any:
    """Return a traced number as NumPy writes it, converted to a scalar first, to an array like `x`."""
    return cast(ops.scalar(value), numpy_dtype(x), listed=True) if isinstance(value, Traced) else value
