"""NumPy's polynomials: arrays of coefficients, the highest first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, kept, laid, written
from tapegrad.frontends.numpy.shape import atleast, numpy_dtype
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


for _fn in (np.polyadd, np.polysub, np.polydiv, np.polyder, np.polyint):
    register(_fn, _of_polynomials(written(_fn)))
