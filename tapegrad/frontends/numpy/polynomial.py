"""NumPy's polynomials: arrays of coefficients, the highest first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tapegrad import ops
from tapegrad.frontends.common import as_array, kept, laid, static, written
from tapegrad.frontends.numpy.numeric import as_dtype
from tapegrad.frontends.numpy.reduce import kind_of
from tapegrad.frontends.numpy.shape import atleast, numpy_dtype, rank
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.rules.registry import means, register


def _length(p: Array) -> int:
    return shape_of(p)[0]  # type: ignore[no-any-return]


def _of_polynomials(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of coefficients also take and return `poly1d` objects."""
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
    while first < _length(p) - 1 and ops.equal(p[first], 0):  # each comparison is guarded
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


@means(np.polymul)
@_of_polynomials
def polymul(a1: Array, a2: Array) -> Any:
    return ops.convolve(_without_leading_zeros(a1), _without_leading_zeros(a2))


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


@means(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    x, trim = as_array(filt), trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = range(rank(x)) if axis is None else normalize_axis_tuple(static(axis), rank(x), argname="axis")
    if not axes:  # NumPy 2.2 returns the number in an array without axes; later versions return the array itself
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


for _fn in (np.polyadd, np.polysub, np.polydiv):
    register(_fn, _of_polynomials(written(_fn)))
