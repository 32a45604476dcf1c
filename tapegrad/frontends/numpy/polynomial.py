"""NumPy's polynomials: arrays of coefficients, the highest first."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tapegrad import ops
from tapegrad.frontends.common import as_array, kept, laid, static
from tapegrad.frontends.numpy.numeric import as_dtype, vander
from tapegrad.frontends.numpy.reduce import kind_of
from tapegrad.frontends.numpy.shape import atleast, common_dtype, numpy_dtype, rank
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.rules.registry import means


def _length(p: Array) -> int:
    return shape_of(p)[0]  # type: ignore[no-any-return]


def _of_polynomials(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of coefficients take `poly1d` objects too, and return them."""
    @functools.wraps(fn)
    def of_either(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(arg, np.poly1d) for arg in args):
            return fn(*args, **kwargs)
        y = fn(*[arg.coeffs if isinstance(arg, np.poly1d) else arg for arg in args], **kwargs)
        return tuple(map(np.poly1d, y)) if isinstance(y, tuple) else np.poly1d(y)
    return of_either


def _without_leading_zeros(p: Array) -> Any:
    """Drop the zeros that `poly1d` drops; a zero polynomial keeps one."""
    p = atleast(1, p)
    first = 0
    while first < _length(p) - 1 and ops.equal(p[first], 0):  # each look is guarded
        first += 1
    return p[first:] if first else p


@means(np.polyval)
@laid(kept, by=1)
def polyval(p: Array, x: Array) -> Any:
    p = p.coeffs if isinstance(p, np.poly1d) else as_array(p)
    y: Any = 0
    if not isinstance(x, np.poly1d):
        x = as_array(x)
        y = np.zeros(shape_of(x), numpy_dtype(x))
    for i in range(_length(p)):
        y = y * x + p[i]
    return y


def _aligned(a1: Array, a2: Array) -> tuple[Any, Any]:
    a, b = atleast(1, a1), atleast(1, a2)
    n = max(_length(a), _length(b))
    return tuple(p if _length(p) == n else ops.pad(p, ((n - _length(p), 0),))
                 for p in (a, b))  # type: ignore[return-value]


@means(np.polyadd)
@_of_polynomials
def polyadd(a1: Array, a2: Array) -> Any:
    return ops.add(*_aligned(a1, a2))


@means(np.polysub)
@_of_polynomials
def polysub(a1: Array, a2: Array) -> Any:
    return ops.subtract(*_aligned(a1, a2))


@means(np.polymul)
@_of_polynomials
def polymul(a1: Array, a2: Array) -> Any:
    return ops.convolve(_without_leading_zeros(a1), _without_leading_zeros(a2))


@means(np.polydiv)
@_of_polynomials
def polydiv(u: Array, v: Array) -> Any:
    r, v = atleast(1, u) + 0.0, atleast(1, v) + 0.0
    dtype, scale, n = common_dtype(r, v), 1.0 / v[0], _length(v)
    r, quotient = as_dtype(r, dtype), []
    for k in range(_length(r) - n + 1):
        quotient.append(scale * r[k])
        r = r - ops.pad(quotient[-1] * v, ((k, _length(r) - n - k),))
    q = ops.stack(*quotient, axis=0) if quotient else np.zeros(1, dtype)
    while _length(r) > 1 and ops.less_equal(ops.abs(r[0]), 1e-8):
        r = r[1:]
    return q, r


@means(np.polyder)
@_of_polynomials
def polyder(p: Any, m: Any = 1) -> Any:
    p, m = as_array(p), static(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(m):
        p = p[:-1] * np.arange(_length(p) - 1, 0, -1)
    return p


@means(np.polyint)
@_of_polynomials
def polyint(p: Any, m: Any = 1, k: Any = None) -> Any:
    p, m = as_array(p), static(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.zeros(m) if k is None else atleast(1, k)
    if _length(constants) == 1 and m > 1:
        constants = ops.broadcast_to(constants, (m,))
    if _length(constants) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        p = ops.concat(p / np.arange(_length(p), 0, -1), constants[i: i + 1], axis=0)
    return p


@means(np.poly)
def poly(seq_of_zeros: Any) -> Any:
    roots = atleast(1, seq_of_zeros)
    shape = shape_of(roots)
    if len(shape) == 2 and shape[0] == shape[1] != 0:
        roots = np.linalg.eigvals(roots)
    elif len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    elif kind_of(roots) not in "fc":
        roots = as_dtype(roots, float)
    if not _length(roots):
        return 1.0
    dtype = numpy_dtype(roots)
    y: Any = np.ones(1, dtype)
    for i in range(_length(roots)):
        y = ops.convolve(y, ops.concat(np.ones(1, dtype), -roots[i: i + 1], axis=0))
    if kind_of(y) == "c" and ops.all(ops.equal(ops.sort(roots), ops.sort(ops.conj(roots)))):
        y = ops.real(y)  # roots in conjugate pairs
    return y


@means(np.roots)
def roots(p: Array) -> Any:
    p = atleast(1, p)
    if rank(p) != 1:
        raise ValueError("Input must be a rank-1 array.")
    places = ops.nonzero(p)[0]
    if not len(places):
        return np.zeros(0)
    trailing = _length(p) - int(places[-1]) - 1
    p = p[int(places[0]): int(places[-1]) + 1]
    p = p if kind_of(p) in "fc" else as_dtype(p, float)
    n = _length(p) - 1
    if n < 1:
        return np.zeros(trailing)
    companion = ops.concat(ops.expand_dims(-p[1:] / p[0], axis=0), np.eye(n - 1, n, dtype=numpy_dtype(p)), axis=0)
    y = np.linalg.eigvals(companion)
    return ops.concat(y, np.zeros(trailing, numpy_dtype(y)), axis=0)


@means(np.polyfit)
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    x, y, order = as_array(x) + 0.0, as_array(y) + 0.0, static(deg) + 1
    if order < 1:
        raise ValueError("expected deg >= 0")
    if rank(x) != 1:
        raise TypeError("expected 1D vector for x")
    if not _length(x):
        raise TypeError("expected non-empty vector for x")
    if rank(y) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if _length(x) != _length(y):
        raise TypeError("expected x and y to have same length")
    left, right, rcond = vander(x, order), y, _length(x) * np.finfo(numpy_dtype(x)).eps if rcond is None else rcond
    if w is not None:
        w = as_array(w) + 0.0
        if rank(w) != 1:
            raise TypeError("expected a 1-d array for weights")
        if _length(w) != _length(y):
            raise TypeError("expected w and y to have the same length")
        column = ops.expand_dims(w, axis=1)
        left, right = left * column, right * (column if rank(right) == 2 else w)
    scale = ops.sqrt(ops.sum(left * left, axis=0))
    left = left / scale
    solution, residuals, found, singular = np.linalg.lstsq(left, right, rcond)
    c = ops.permute_dims(ops.permute_dims(solution) / scale)
    if not full and found != order:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if full:
        return c, residuals, found, singular, rcond
    if not cov:
        return c
    base = np.linalg.inv(ops.matmul(ops.permute_dims(left), left)) / (ops.reshape(scale, (-1, 1)) * scale)
    if cov == "unscaled":
        factor: Any = 1
    elif _length(x) <= order:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    else:
        factor = residuals / (_length(x) - order)
    return c, base * factor if rank(y) == 1 else ops.expand_dims(base, axis=2) * factor


@means(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    x, trim = as_array(filt), trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = range(rank(x)) if axis is None else normalize_axis_tuple(static(axis), rank(x), argname="axis")
    if not axes:  # NumPy 2.2 reads the number of an array without axes; later ones return the array itself
        whole = np.zeros(shape_of(x))
        return filt if np.trim_zeros(whole, axis=axis) is whole else x[()]
    places = ops.nonzero(x)
    index = []
    for i, place in enumerate(places):
        if i not in axes:
            index.append(slice(None))
        elif not len(place):
            index.append(slice(0, 0))
        else:
            index.append(slice(int(ops.min(place)) if "f" in trim else None,
                               int(ops.max(place)) + 1 if "b" in trim else None))
    return x[tuple(index)]
