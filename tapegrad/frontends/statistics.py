"""How the standard library's `statistics` is written in ops: `math.fsum` where the library sums fractions."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import register

_DOUBLE, _NARROW = np.dtype(float), (np.dtype(np.float32), np.dtype(np.float16))


def means(fn: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated composite for `fn`. `fn` is called on plain values first: it raises its errors, and its
    result shows whether the numbers are Python's or NumPy's.
    """
    def decorate(composite: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(composite)
        def checked(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = tuple(map(_listed, args)), {name: _listed(arg) for name, arg in kwargs.items()}
            known = fn(*map(_plain, args), **{name: _plain(arg) for name, arg in kwargs.items()})
            return _like(composite(*args, **kwargs), known)
        register(fn, checked)
        return composite
    return decorate


def _listed(x: Array) -> Any:
    return list(x) if not isinstance(x, (str, int, float)) and hasattr(x, "__iter__") else x


def _plain(x: Array) -> Any:
    if isinstance(x, list):
        return [_plain(part) for part in x]
    return plain(x) if isinstance(x, Traced) else x


def _wide(x: Any) -> Any:
    """Return a number of less than double precision as a double, where the library computes with fractions."""
    return ops.astype(x, dtype=_DOUBLE) if isinstance(x, Traced) and dtype_of(x) in _NARROW else x


def _like(y: Any, known: Any) -> Any:
    """Return the numbers `y` in the dtypes of those in `known` that are NumPy's."""
    if isinstance(known, tuple):
        return type(known)(*map(_like, y, known))
    return ops.astype(y, dtype=known.dtype) if isinstance(known, np.floating) else y


@means(statistics.mean)
def mean(data: Array) -> Any:
    return math.fsum(data) / len(data)


@means(statistics.fmean)
def fmean(data: Any, weights: Any = None) -> Any:
    return mean(data) if weights is None else math.fsum([x * w for x, w in zip(data, weights)]) / math.fsum(weights)


@means(statistics.geometric_mean)
def geometric_mean(data: Array) -> Any:
    return math.exp(mean([math.log(x) for x in data]))


@means(statistics.harmonic_mean)
def harmonic_mean(data: Any, weights: Any = None) -> Any:
    weights = [1.0] * len(data) if weights is None else weights
    return math.fsum(weights) / math.fsum([w / x for x, w in zip(map(_wide, data), weights)])


def _squares(data: Array, center: Any) -> Any:
    center = mean(data) if center is None else center
    return math.fsum([(x - center) ** 2 for x in map(_wide, data)])


@means(statistics.variance)
def variance(data: Array, xbar: Any = None) -> Any:
    return _squares(data, xbar) / (len(data) - 1)


@means(statistics.pvariance)
def pvariance(data: Array, mu: Any = None) -> Any:
    return _squares(data, mu) / len(data)


@means(statistics.stdev)
def stdev(data: Array, xbar: Any = None) -> Any:
    return math.sqrt(variance(data, xbar))


@means(statistics.pstdev)
def pstdev(data: Array, mu: Any = None) -> Any:
    return math.sqrt(pvariance(data, mu))


def _products(x: Array, y: Array) -> Any:
    a, b = mean(x), mean(y)
    return math.fsum([(p - a) * (q - b) for p, q in zip(x, y)])


if hasattr(statistics, "covariance"):  # Python 3.10
    @means(statistics.covariance)
    def covariance(x: Array, y: Array) -> Any:
        return _products(x, y) / (len(x) - 1)

    def correlation(x: Array, y: Array, *, method: str = "linear") -> Any:
        if method == "ranked":  # of ranks, which are constant almost everywhere
            return statistics.correlation(_plain(x), _plain(y), method=method)  # type: ignore[call-arg]
        return _products(x, y) / math.sqrt(_products(x, x) * _products(y, y))

    means(statistics.correlation)(correlation)

    @means(statistics.linear_regression)
    def linear_regression(x: Array, y: Array, *, proportional: bool = False) -> Any:
        if proportional:
            slope, intercept = math.fsum([p * q for p, q in zip(x, y)]) / math.fsum([p * p for p in x]), 0.0
        else:
            slope = _products(x, y) / _products(x, x)
            intercept = mean(y) - slope * mean(x)
        return statistics.LinearRegression(slope=slope, intercept=intercept)
