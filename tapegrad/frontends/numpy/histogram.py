"""NumPy's histograms. Counts are piecewise constant; weights and bin edges are differentiable."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.numpy.numeric import as_dtype
from tapegrad.frontends.numpy.reduce import kind_of
from tapegrad.frontends.numpy.running import diff
from tapegrad.frontends.numpy.shape import atleast, common_dtype, numpy_dtype, rank, ravel
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.rules.registry import means, refused


@means(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    x = as_array(x)
    how = {"minlength": static(minlength)} if minlength else {}
    return ops.bincount(x, **how) if weights is None else ops.bincount(x, as_array(weights), **how)


def _ends(x: Array, range: Any) -> tuple[Any, Any]:
    """Return the first and the last edge, moved apart if they are equal."""
    if range is not None:
        first, last = range
        if first > last:
            raise ValueError("max must be larger than min in range parameter.")
    elif not math.prod(shape_of(x)):
        first, last = 0, 1
    else:
        first, last = ops.min(x), ops.max(x)
    if not (ops.isfinite(first) and ops.isfinite(last)):
        raise ValueError(f"{'autodetected' if range is None else 'supplied'} range of [{first}, {last}] is not finite")
    return (first - 0.5, last + 0.5) if first == last else (first, last)


def _edges(x: Array, bins: Any, range: Any, name: str = "`bins`") -> Any:
    """Return the edges of the bins."""
    if isinstance(bins, str):
        raise refused(f"bins={bins!r}", "the number of bins depends on the values",
                      "bins=len(np.histogram_bin_edges(tg.value(x), ...)) - 1")
    if rank(bins) > 1:
        raise ValueError(f"{name} must be 1d, when an array")
    if rank(bins) or isinstance(bins, (list, tuple)):
        edges = as_array(bins)
        if ops.any(ops.greater(edges[:-1], edges[1:])):
            raise ValueError(f"{name} must increase monotonically, when an array")
        return edges
    try:
        n = operator.index(bins)
    except TypeError:
        raise TypeError(f"{name} must be an integer, a string, or an array") from None
    if n < 1:
        raise ValueError(f"{name} must be positive, when an integer")
    first, last = _ends(x, range)
    dtype = common_dtype(first, last, x)
    edges = np.linspace(first, last, n + 1, dtype=dtype if dtype.kind == "f" else np.result_type(dtype, float))
    if ops.any(ops.greater_equal(edges[:-1], edges[1:])):
        raise ValueError(f"Too many bins for data range. Cannot create {n} finite-sized bins.")
    return edges


@means(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    return _edges(ravel(a), bins, range)


def _summed(which: Any, w: Array, n: int) -> Any:
    """Return the sum of the weights in each of `n` bins."""
    if kind_of(w) == "c":
        return ops.bincount(which, ops.real(w), minlength=n) + 1j * ops.bincount(which, ops.imag(w), minlength=n)
    return as_dtype(ops.bincount(which, w, minlength=n), numpy_dtype(w))


@means(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any]:
    x, w = ravel(a), None if weights is None else as_array(weights)
    if w is not None and shape_of(w) != shape_of(as_array(a)):
        raise ValueError("weights should have the same shape as a.")
    edges = _edges(x, bins, range)
    n = shape_of(edges)[0] - 1
    if w is not None and not rank(bins) and not isinstance(bins, (list, tuple)):
        which = ops.where(ops.equal(x, edges[-1]), n - 1, ops.searchsorted(edges, x, side="right") - 1)
        inside = ops.logical_and(ops.greater_equal(x, edges[0]), ops.less_equal(x, edges[-1]))
        y = _summed(ops.where(inside, which, n), ravel(w), n + 1)[:n]  # numbers outside are counted in an extra bin
    else:
        order = ops.argsort(x)
        x = ops.take(x, order)
        places = ops.concat(ops.searchsorted(x, edges[:-1]), ops.searchsorted(x, edges[-1:], side="right"), axis=0)
        if w is not None:  # by differences of the running total, as in NumPy
            total = ops.cumulative_sum(ops.take(ravel(w), order), include_initial=True)
            places = ops.take(total, places)
        y = diff(places)
    if density:
        y = y / as_dtype(diff(edges), float) / ops.sum(y)
    return y, edges


@means(np.histogramdd)
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None,
                weights: Any = None) -> tuple[Any, list[Any]]:
    x = as_array(sample)
    if isinstance(sample, (list, tuple)) or rank(x) != 2:
        x = ops.permute_dims(atleast(2, x))
    columns = [x[:, i] for i in np.arange(shape_of(x)[1]).tolist()]
    bins = [bins] * len(columns) if not rank(bins) and not isinstance(bins, (list, tuple)) else bins
    if len(bins) != len(columns):
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    if range is not None and len(range) != len(columns):
        raise ValueError("range argument must have one entry per dimension")
    edges = [_edges(column, part, None if range is None else range[i], f"`bins[{i}]`")
             for i, (column, part) in enumerate(zip(columns, bins))]
    sizes = tuple(shape_of(e)[0] + 1 for e in edges)  # with an extra bin at each end
    which: Any = 0
    for column, e, size in zip(columns, edges, sizes):
        place = ops.searchsorted(e, column, side="right")
        which = which * size + place - ops.equal(column, e[-1])
    y = bincount(which, weights, math.prod(sizes))
    y = as_dtype(ops.reshape(y, sizes), np.dtype(float))[(slice(1, -1),) * len(edges)]
    if density:
        total = ops.sum(y)
        for i, e in enumerate(edges):
            y = y / ops.reshape(diff(e), tuple(-1 if k == i else 1 for k, _ in enumerate(edges)))
        y = y / total
    return y, edges
