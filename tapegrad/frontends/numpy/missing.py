"""NumPy's order statistics that ignore nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.numpy.numeric import as_dtype
from tapegrad.frontends.numpy.reduce import how, joined_axes, kind_of
from tapegrad.frontends.numpy.shape import numpy_dtype
from tapegrad.frontends.numpy.sort import _plain, median, percent, quantile
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import Op
from tapegrad.rules.registry import means, refused


def _sorted(a: Array, axis: Axis) -> tuple[Any, Any, tuple[int, ...]]:
    """Return the numbers sorted along the first axis with nan last, the rank of the largest one, and the shape that
    keeps the reduced axes.
    """
    x, kept = joined_axes(a, axis)
    x = ops.sort(x, axis=0) if shape_of(x)[0] else np.full((1, *shape_of(x)[1:]), np.nan)  # an empty slice gives nan
    return x, ops.maximum(ops.sum(ops.logical_not(ops.isnan(x)), axis=0) - 1, 0), kept  # rank 0 if all are nan


def _ranked(x: Array, ranks: Any) -> Any:
    return ops.take_along_axis(x, ranks, axis=0)


@means(np.nanmedian)
def nanmedian(a: Array, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:
    if kind_of(as_array(a)) not in "fc":
        return median(a, axis, keepdims=keepdims)
    x, last, kept = _sorted(a, axis)
    last = ops.expand_dims(last, axis=0)
    y = ((_ranked(x, last // 2) + _ranked(x, (last + 1) // 2)) / 2)[0]
    return ops.reshape(y, kept) if keepdims else y


@means(np.nanquantile)
def nanquantile(a: Array, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:
    if kind_of(as_array(a)) not in "fc":
        return quantile(a, q, axis, method=method, keepdims=keepdims, weights=weights)
    if method != "linear" or weights is not None:
        raise refused("a quantile with weights, or a method other than 'linear',",
                      "it is not supported for traced arrays",
                      "method='linear'")
    parts = _plain(q)
    if not np.all((parts >= 0) & (parts <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    x, last, kept = _sorted(a, axis)
    rest = shape_of(x)[1:]
    place = last * parts.reshape((-1,) + (1,) * len(rest))
    below = ops.astype(ops.floor(place), dtype=np.dtype(np.intp))
    low = y = _ranked(x, below)
    if parts.dtype.kind == "f":  # else there is nothing to interpolate
        part = place - below
        part = as_dtype(part, numpy_dtype(x)) if type(q) in (int, float) else part
        late = ops.greater_equal(part, 0.5)  # interpolates from the nearer neighbour, so that both ends are exact
        high = _ranked(x, ops.minimum(below + 1, last))
        y = ops.where(late, high - (high - low) * (1 - part), low + (high - low) * part)
    y = y if parts.ndim else y[0]
    return ops.reshape(y, parts.shape + (kept if keepdims else rest)) if keepdims or parts.ndim > 1 else y


@means(np.nanpercentile)
def nanpercentile(a: Array, q: Array, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:
    return nanquantile(a, percent(q), axis, out, overwrite_input, method, keepdims, weights=weights)


def _place(op: Op, worst: float, a: Array, axis: Axis, keepdims: bool) -> Any:
    """Return the index of the largest or smallest number, with nan replaced by `worst`."""
    x = as_array(a)
    if kind_of(x) not in "fc":
        return op(x, **how(axis, keepdims))
    missing = ops.isnan(x)
    if ops.any(ops.all(missing, **how(axis))):
        raise ValueError("All-NaN slice encountered")
    return op(ops.where(missing, worst, x), **how(axis, keepdims))


@means(np.nanargmax, constant=True)
def nanargmax(a: Array, axis: Axis = None, out: Array | None = None, *, keepdims: bool = False) -> Any:
    return _place(ops.argmax, -np.inf, a, axis, keepdims)


@means(np.nanargmin, constant=True)
def nanargmin(a: Array, axis: Axis = None, out: Array | None = None, *, keepdims: bool = False) -> Any:
    return _place(ops.argmin, np.inf, a, axis, keepdims)
