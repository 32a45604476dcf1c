"""NumPy's reductions."""

from __future__ import annotations

import builtins
import functools
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tapegrad import ops
from tapegrad.frontends.common import as_array, keywords, numpys, static
from tapegrad.frontends.numpy.shape import numpy_dtype, shape
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.reduce import count
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import means
from tapegrad.trace.views import peek

# -- shared by the reductions: `where=` as a mask, and the keyword arguments that an op takes


def kind_of(x: Any) -> str:
    """Return the kind of an array's or number's dtype ("f", "c", "i" …). Only the kind is guarded, no shape is."""
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = np.dtype(x.__class__)
        if isinstance(x, Traced):  # a Python number has no dtype attribute, which would record the guard
            x._tracer.guard(peek(x), "dtype", dtype)
    elif not isinstance(dtype, np.dtype):  # torch's
        dtype = dtype_of(x)
    return dtype.kind  # type: ignore[no-any-return]


def how(axis: Any, keepdims: Any = False, dtype: Any = None) -> dict[str, Any]:
    """Return the keyword arguments of a reduction that differ from the defaults."""
    if axis is None and keepdims is False and dtype is None:
        return {}
    return keywords(axis=axis, dtype=None if dtype is None else np.dtype(dtype), keepdims=bool(keepdims))


def masked(a: Array, where: Array | bool, fill: Any) -> tuple[Any, Any]:
    """Return an array with `fill` outside the mask, and the mask in its shape; None if all elements are in."""
    x = as_array(a)
    if where is True:
        return x, None
    mask = as_array(where)
    if shape_of(mask) != shape_of(x):
        mask = ops.broadcast_to(mask, shape_of(x))
    return ops.where(mask, x, fill), mask


def present(a: Array, where: Array | bool = True) -> Any:
    """Return the mask of the elements that are not nan and lie in the mask `where`."""
    x = as_array(a)
    if kind_of(x) not in "fc":
        return where
    there = ops.logical_not(ops.isnan(x))
    return there if where is True else ops.logical_and(there, as_array(where))


def _fitting(initial: Any, y: Array) -> Any:
    """Return the initial value of a reduction in the dtype of its result, to which NumPy casts it.

    Raises ValueError if it is not a number.
    """
    given, dtype = as_array(initial), numpy_dtype(y)
    if shape_of(given):
        raise ValueError("setting an array element with a sequence.")
    alike = np.result_type(dtype, given.__class__(0) if dtype_of(given) is None else dtype_of(given)) == dtype
    return given if alike else ops.astype(given, dtype=dtype)


# -- sums and products


@means(np.sum, np.ndarray.sum)
def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
        where: Any = True) -> Any:
    y = ops.sum(masked(a, where, 0)[0], **how(axis, keepdims, dtype))
    return y if initial is None else y + _fitting(initial, y)


@means(np.prod, np.ndarray.prod)
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
         where: Any = True) -> Any:
    y = ops.prod(masked(a, where, 1)[0], **how(axis, keepdims, dtype))
    return y if initial is None else y * _fitting(initial, y)


@means(np.logaddexp.reduce)
def logaddexp_reduce(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
                     initial: Any = None, where: Array | bool = True) -> Any:
    x = masked(array, where, -np.inf)[0]
    y = ops.logsumexp(x if dtype is None else ops.astype(x, dtype=np.dtype(dtype)), **how(axis, keepdims))
    return y if initial is None else ops.logaddexp(y, _fitting(initial, y))


@means(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
           where: Any = True) -> Any:
    return sum(a, axis, dtype, out, keepdims, initial, present(a, where))


@means(np.nanprod)
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
            where: Any = True) -> Any:
    return prod(a, axis, dtype, out, keepdims, initial, present(a, where))


# -- the largest and the smallest


def extremum(op: Op, pair: Op, a: Array, axis: Axis = None, keepdims: bool = False, initial: Any = None,
             where: Array | bool = True) -> Any:
    """Reduce by `op`. `initial` replaces the elements outside the mask and is compared with the result by `pair`."""
    if initial is None:
        if where is not True:
            raise ValueError(f"reduction operation '{pair.__name__}' does not have an identity, "
                             "so to use a where mask one has to specify 'initial'")
        return op(as_array(a), **how(axis, keepdims))
    initial = _fitting(initial, as_array(a))
    x = masked(a, where, initial)[0]
    if 0 in shape_of(x):
        return _extremum_of_none(op, x, axis, keepdims, initial)
    return pair(op(x, **how(axis, keepdims)), initial)


def _extremum_of_none(op: Op, x: Array, axis: Axis, keepdims: bool, initial: Any) -> Any:
    """Reduce an empty array with `initial` as one more element: a replay may have a larger array, and compares all."""
    rows, kept = joined_axes(x, axis)
    y = op(ops.concat(rows, ops.broadcast_to(initial, (1, *shape_of(rows)[1:])), axis=0), axis=0)
    return ops.reshape(y, kept) if keepdims else y


def joined_axes(a: Array, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """Return an array with the reduced axes joined into the first, and the shape that keeps them with length 1."""
    x = as_array(a)
    sizes = shape_of(x)
    n = len(sizes)
    axes = tuple(range(n)) if axis is None else normalize_axis_tuple(static(axis), n)
    others = tuple(i for i in range(n) if i not in axes)
    if (*axes, *others) != tuple(range(n)):
        x = ops.permute_dims(x, axes=(*axes, *others))
    rest = tuple(sizes[i] for i in others)
    kept = tuple(1 if i in axes else size for i, size in enumerate(sizes))
    return (x if len(axes) == 1
            else ops.reshape(x, (math.prod(sizes[i] for i in axes) if 0 in rest else -1, *rest))), kept


@means(np.max, np.amax, np.ndarray.max)
def max(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
        where: Array | bool = True) -> Any:
    return extremum(ops.max, ops.maximum, a, axis, keepdims, initial, where)


@means(np.min, np.amin, np.ndarray.min)
def min(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
        where: Array | bool = True) -> Any:
    return extremum(ops.min, ops.minimum, a, axis, keepdims, initial, where)


def nan_extremum(op: Op, pair: Op, a: Array, axis: Axis, keepdims: bool, initial: Any, where: Array | bool) -> Any:
    """Reduce by `op`. If all elements are nan, NumPy returns nan for a list or number, and `initial` for an array."""
    y = extremum(op, pair, a, axis, keepdims, initial, where)
    if initial is None or isinstance(plain(a), np.ndarray) or kind_of(as_array(a)) not in "fc":
        return y
    missing = ops.isnan(as_array(a))
    if where is not True:
        missing = ops.logical_or(missing, ops.logical_not(as_array(where)))
    return numpys(ops.where(ops.all(missing, **how(axis, keepdims)), np.nan, y)[()])


@means(np.nanmax)
def nanmax(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
           where: Array | bool = True) -> Any:
    return nan_extremum(ops.nanmax, ops.fmax, a, axis, keepdims, initial, where)


@means(np.nanmin)
def nanmin(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
           where: Array | bool = True) -> Any:
    return nan_extremum(ops.nanmin, ops.fmin, a, axis, keepdims, initial, where)


means(np.fmax.reduce)(functools.partial(extremum, ops.nanmax, ops.fmax))
means(np.fmin.reduce)(functools.partial(extremum, ops.nanmin, ops.fmin))


@means(np.ptp)
def ptp(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Any:
    return max(a, axis, None, keepdims) - min(a, axis, None, keepdims)


@means(np.argmax, np.ndarray.argmax, constant=True)
def argmax(a: Array, axis: Axis = None, out: Array | None = None, *, keepdims: bool = False) -> Any:
    return ops.argmax(as_array(a), **how(axis, keepdims))


@means(np.argmin, np.ndarray.argmin, constant=True)
def argmin(a: Array, axis: Axis = None, out: Array | None = None, *, keepdims: bool = False) -> Any:
    return ops.argmin(as_array(a), **how(axis, keepdims))


# -- moments


def averaged(x: Array, mask: Any, options: dict[str, Any], less: Any = 0) -> Any:
    """Divide the sum of `x`, which is 0 outside the mask, by the number of elements in the mask minus `less`."""
    if mask is None and not less:
        return ops.mean(x, **options)
    y = ops.sum(x, **options)
    if mask is None:
        return y / builtins.max(count(x, options.get("axis")) - less, 0)
    size = ops.sum(mask, **how(options.get("axis"), options.get("keepdims")))
    return like(y, y / (ops.maximum(size - less, 0) if less else size))


def like(x: Array, y: Array) -> Any:
    """Return `y` in the precision of `x`, if `x` is floating-point or complex."""
    return y if kind_of(x) not in "fc" or dtype_of(y) == dtype_of(x) else ops.astype(y, dtype=dtype_of(x))


@means(np.mean, np.ndarray.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
         where: Any = True) -> Any:
    return averaged(*masked(a, where, 0), how(axis, keepdims, dtype))


@means(np.var, np.ndarray.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    if correction is not None and ddof:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    x, mask = masked(a, where, 0)
    far = x - (averaged(x, mask, how(axis, True, dtype)) if mean is None else as_array(mean))
    if mask is not None:
        far = ops.where(mask, far, 0)
    squares = ops.real(far) ** 2 + ops.imag(far) ** 2 if kind_of(x) == "c" else ops.square(far)
    return averaged(squares, mask, how(axis, keepdims, dtype), ddof if correction is None else correction)


@means(np.std, np.ndarray.std)
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    y = var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    zero = ops.equal(y, 0)
    return ops.sqrt(y + zero) - zero  # the root, with derivative 0 at 0, as for abs


@means(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
            where: Any = True) -> Any:
    return mean(a, axis, dtype, out, keepdims, where=present(a, where))


@means(np.nanvar)
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
           where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    return var(a, axis, dtype, out, ddof, keepdims, where=present(a, where), mean=mean, correction=correction)


@means(np.nanstd)
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
           where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    return std(a, axis, dtype, out, ddof, keepdims, where=present(a, where), mean=mean, correction=correction)


# -- no derivative: logic, counting, comparing


@means(np.any, np.ndarray.any, constant=True)
def any(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *,
        where: Array | bool = True) -> Any:
    return ops.any(masked(a, where, False)[0], **how(axis, keepdims))


@means(np.all, np.ndarray.all, constant=True)
def all(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *,
        where: Array | bool = True) -> Any:
    return ops.all(masked(a, where, True)[0], **how(axis, keepdims))


@means(np.count_nonzero, constant=True)
def count_nonzero(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return ops.count_nonzero(as_array(a), **how(axis, keepdims))


@means(np.nonzero, np.ndarray.nonzero, constant=True)
def nonzero(a: Array) -> Any:
    x = as_array(a)
    shape(x)  # guards the number of axes, which is the number of index arrays
    return ops.nonzero(x)


@means(np.isclose, constant=True)
def isclose(a: Array, b: Array, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    x, y = numpys(as_array(a)), as_array(b)
    y = ops.astype(y, dtype=np.dtype(float)) if kind_of(y) == "b" else y  # bools cannot be subtracted
    close = ops.less_equal(ops.abs(x - y), atol + rtol * ops.abs(y)) & ops.isfinite(y) | ops.equal(x, y)
    return close | ops.isnan(x) & ops.isnan(y) if equal_nan else close


@means(np.allclose, constant=True)
def allclose(a: Array, b: Array, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    return bool(ops.all(isclose(a, b, rtol, atol, equal_nan)))


@means(np.array_equal, constant=True)
def array_equal(a1: Array, a2: Array, equal_nan: bool = False) -> bool:
    x, y = as_array(a1), as_array(a2)
    if shape(x) != shape(y):
        return False
    same = ops.equal(x, y)
    return bool(ops.all(same | ops.isnan(x) & ops.isnan(y) if equal_nan else same))
