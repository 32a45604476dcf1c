"""NumPy's running totals, and differences, their inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tapegrad import ops
from tapegrad.frontends.common import as_array, keywords, static
from tapegrad.frontends.numpy.join import converted
from tapegrad.frontends.numpy.reduce import kind_of, masked, present
from tapegrad.frontends.numpy.shape import numpy_dtype, rank, ravel
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, DType
from tapegrad.ops.shape import along
from tapegrad.rules.op import Op
from tapegrad.rules.registry import means

# -- running totals


def running(op: Op, a: Any, axis: Any, dtype: DType, **options: Any) -> Any:
    """Apply a running total along an axis, or over all elements if `axis` is None."""
    x = as_array(a)
    if axis is not None and not rank(x):
        normalize_axis_index(static(axis), 1)  # AxisError, in NumPy's words: NumPy treats a number as one-dimensional
    x, axis = (ravel(x) if rank(x) != 1 else x, 0) if axis is None or not rank(x) else (x, axis)
    return op(x, **keywords(axis=axis, dtype=None if dtype is None else np.dtype(dtype), **options))


@means(np.cumsum, np.ndarray.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return running(ops.cumulative_sum, a, axis, dtype)


@means(np.cumprod, np.ndarray.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return running(ops.cumulative_prod, a, axis, dtype)


@means(np.maximum.accumulate)
def maximum_accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    return _extremes(ops.cumulative_max, array, axis, dtype)


@means(np.minimum.accumulate)
def minimum_accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    return _extremes(ops.cumulative_min, array, axis, dtype)


@means(np.fmax.accumulate)
def fmax_accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    return _present_extremes(ops.cumulative_max, -np.inf, array, axis, dtype)


@means(np.fmin.accumulate)
def fmin_accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    return _present_extremes(ops.cumulative_min, np.inf, array, axis, dtype)


@means(np.logaddexp.accumulate)
def logaddexp_accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    return _extremes(ops.cumulative_logsumexp, array, axis, dtype)


def _extremes(op: Op, array: Array, axis: Any, dtype: Any) -> Any:
    x = as_array(array)
    if not rank(x):
        raise TypeError("cannot accumulate on a scalar")
    return op(x if dtype is None else ops.astype(x, dtype=np.dtype(dtype)), axis=static(axis))


def _present_extremes(op: Op, fill: float, array: Array, axis: Any, dtype: Any) -> Any:
    """Return running extrema that skip nan; before the first number they are nan."""
    x = as_array(array)
    if kind_of(x) != "f":
        return _extremes(op, x, axis, dtype)
    there = present(x)
    y = _extremes(op, masked(x, there, fill)[0], axis, dtype)
    begun = ops.cumulative_sum(ops.astype(there, dtype=np.dtype(int)), axis=static(axis))
    return ops.where(ops.greater(begun, 0), y, np.nan)


@means(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return cumsum(masked(a, present(a), 0)[0], axis, dtype, out)


@means(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return cumprod(masked(a, present(a), 1)[0], axis, dtype, out)


def _standard(op: Op) -> Callable[..., Any]:
    """Return a running total with the signature of the array API standard."""
    def total(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
        x = as_array(x)
        if axis is None and rank(x) > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        return running(op, x, axis, dtype, include_initial=include_initial)
    return total


if hasattr(np, "cumulative_sum"):  # from NumPy 2.1 on
    means(np.cumulative_sum)(_standard(ops.cumulative_sum))
    means(np.cumulative_prod)(_standard(ops.cumulative_prod))

# -- differences


@means(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    x, n, axis = as_array(a), static(n), static(axis)
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if not rank(x):
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normalize_axis_index(axis, rank(x))
    if prepend is not None or append is not None:
        x = ops.concat(*[_slab(part, x, axis) for part in (prepend, x, append) if part is not None], axis=axis)
    minus = ops.not_equal if kind_of(x) == "b" else ops.subtract
    for _ in range(n):
        x = minus(x[along(axis, slice(1, None))], x[along(axis, slice(None, -1))])
    return x


def _slab(part: Any, x: Array, axis: int) -> Any:
    """Return an argument of `diff` that is joined to `x` along an axis: a number becomes a slice of length 1."""
    part = as_array(part)
    return part if rank(part) else ops.broadcast_to(part,
                                                    tuple(1 if i == axis else n for i, n in enumerate(shape_of(x))))


@means(np.ediff1d)
def ediff1d(ary: Array, to_end: Any = None, to_begin: Any = None) -> Any:
    x = ravel(ary)
    y = x[1:] - x[:-1]
    begin, end = ([] if part is None else converted([ravel(part)], numpy_dtype(x), "same_kind")
                  for part in (to_begin, to_end))
    return ops.concat(*begin, y, *end, axis=0) if begin or end else y
