"""NumPy's functions of order: sorting, ranks and quantiles, positions in a sorted array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, kept, keywords, laid, static
from tapegrad.frontends.numpy.reduce import joined_axes, kind_of
from tapegrad.frontends.numpy.shape import ravel
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import means
from tapegrad.trace.guards import option
from tapegrad.trace.plain_arguments import gives_up, loses
from tapegrad.tree.flatten import leaves_of


def _flat(a: Array, axis: Any) -> tuple[Any, int]:
    """Return an array and an axis of it; the flattened array and 0 if `axis` is None."""
    x = as_array(a)
    return (ravel(x), 0) if axis is None else (x, static(axis))


def _unknown(what: str, try_: str) -> UnknownFunction:
    return UnknownFunction(f"{what} is not supported for traced arrays", user_location(), try_)


def _no_fields(order: Any) -> None:
    if order is not None:
        raise _unknown("order=, which names fields,", "sort by an array of keys: x[np.argsort(key)]")


# -- sorting


@means(np.sort)
def sort(a: Array, axis: Axis = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    _no_fields(order)
    x, axis = _flat(a, axis)
    return ops.sort(x, axis=axis)


@means(np.argsort, np.ndarray.argsort, constant=True)
def argsort(a: Array, axis: Axis = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    _no_fields(order)
    x, axis = _flat(a, axis)
    return ops.argsort(x, **keywords(axis=axis, stable=bool(stable) or kind in ("stable", "mergesort")))


@means(np.argpartition, np.ndarray.argpartition, constant=True)
def argpartition(a: Array, kth: Any, axis: Axis = -1, kind: str = "introselect", order: Any = None) -> Any:
    _no_fields(order)
    x, axis = _flat(a, axis)
    return ops.argpartition(x, kth=static(kth), axis=axis)


@means(np.partition)
@laid(kept)
def partition(a: Array, kth: Any, axis: Axis = -1, kind: str = "introselect", order: Any = None) -> Any:
    _no_fields(order)
    x, axis = _flat(a, axis)
    return ops.take_along_axis(x, ops.argpartition(x, kth=static(kth), axis=axis), axis=axis)


@means(np.ndarray.sort)
def sort_in_place(a: Any, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    a[...] = sort(a, axis, kind, order, stable=stable)


@means(np.ndarray.partition)
def partition_in_place(a: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    a[...] = partition(a, kth, axis, kind, order)


# -- ranks


def _ranked(x: Array, ranks: Sequence[int]) -> Any:
    """Return the elements of the given ranks along the first axis; if an element is nan, which ranks last, all are."""
    return ops.take_along_axis(x, ops.argrank(x, ranks=tuple(ranks)), axis=0)


@means(np.median)
def median(a: Array, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Any:
    x, kept = joined_axes(a, axis)
    n = shape_of(x)[0]
    middle = _ranked(x, sorted({(n - 1) // 2, n // 2})) if n else x
    y = ops.mean(middle, axis=0)
    if n and kind_of(x) == "c":
        y = ops.where(ops.isnan(middle[0]), middle[0], y)[()]  # keeps the other part of a complex nan
    return ops.reshape(y, kept) if keepdims else y


@means(np.quantile)
def quantile(a: Array, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:
    if method != "linear" or weights is not None:
        raise _unknown("a quantile with weights, or a method other than 'linear',", "method='linear'")
    x, kept = joined_axes(a, axis)
    if kind_of(x) == "c":
        raise TypeError("a must be an array of real numbers")
    parts = _plain(q)
    if not np.all((parts >= 0) & (parts <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    y = _at(x, np.asarray((shape_of(x)[0] - 1) * parts), type(q) in (int, float))
    return ops.reshape(y, parts.shape + kept) if keepdims else y


@means(np.percentile)
def percentile(a: Array, q: Array, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:
    return quantile(a, percent(q), axis, out, overwrite_input, method, keepdims, weights=weights)


def percent(q: Any) -> Any:
    """Return percentages as fractions: a float for a number, else an array."""
    q = option(q)
    parts = _plain(q) / 100
    if not np.all((parts >= 0) & (parts <= 1)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return float(parts) if type(q) in (int, float) else parts


def _plain(q: Array) -> Any:
    """Return `q` as a plain array; the numbers of one that is made in the trace are guarded."""
    q = option(q)
    if any(isinstance(leaf, Traced) and loses(leaf) and not gives_up(leaf) for leaf in leaves_of(q)):
        raise _unknown("a quantile at a traced q", "tg.value(q), which drops the gradient with respect to q on purpose")
    return np.asarray(static(q))


def _at(x: Array, place: Any, weak: bool) -> Any:
    """Return the values at (fractional) positions in the sorted array, with the positions' shape in front, rounded as
    NumPy rounds. A `weak` position is a Python number, which keeps the array's dtype.
    """
    shape = place.shape + shape_of(x)[1:]
    if place.dtype.kind in "iu":
        found = _ranked(x, place.ravel().tolist())
        return ops.reshape(found, shape) if place.ndim else found[0]
    last = shape_of(x)[0] - 1
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, last)
    part = (place - below).astype(place.dtype)
    # interpolates from the nearer neighbour, so that both ends are exact
    near, part = np.where(part >= 0.5, above, below), np.where(part >= 0.5, part - 1, part)
    found = _ranked(x, np.stack([near, below, above]).ravel().tolist())
    found = ops.reshape(found, (3, *shape)) if place.ndim else found
    return found[0] + (found[2] - found[1]) * (part.item() if weak
                                               else part.reshape(place.shape + (1,) * (len(shape) - place.ndim)))


# -- positions


@means(np.searchsorted, np.ndarray.searchsorted, constant=True)
def searchsorted(a: Array, v: Array, side: str = "left", sorter: Any = None) -> Any:
    x = as_array(a) if sorter is None else ops.take(as_array(a), as_array(sorter), axis=0)
    return ops.searchsorted(x, as_array(v), **({} if side == "left" else {"side": side}))


@means(np.digitize, constant=True)
def digitize(x: Array, bins: Any, right: bool = False) -> Any:
    return ops.digitize(as_array(x), as_array(bins), **keywords(right=bool(right)))
