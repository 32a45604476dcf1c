"""NumPy's convolutions, interpolation, phases and windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.numpy.reduce import kind_of
from tapegrad.frontends.numpy.shape import atleast, numpy_dtype, rank
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, DType
from tapegrad.rules.op import Op
from tapegrad.rules.registry import means


def as_dtype(x: Array, dtype: DType) -> Any:
    """Return an array in a dtype; itself if it has that dtype already."""
    return x if numpy_dtype(x) == dtype else ops.astype(x, dtype=np.dtype(dtype))


# -- convolution


def _sliding(op: Op, a: Array, v: Array, mode: Any, checked: Any) -> Any:
    if mode not in ("full", "same", "valid") or any(rank(x) != 1 or not shape_of(x)[0] for x in (a, v)):
        checked(np.empty(shape_of(a)), np.empty(shape_of(v)), mode)  # ValueError, in NumPy's words
    return op(a, v, **({} if mode == "full" else {"mode": mode}))


@means(np.convolve)
def convolve(a: Array, v: Array, mode: Any = "full") -> Any:
    return _sliding(ops.convolve, atleast(1, a), atleast(1, v), mode, np.convolve)


@means(np.correlate)
def correlate(a: Array, v: Array, mode: Any = "valid") -> Any:
    return _sliding(ops.correlate, as_array(a), as_array(v), mode, np.correlate)


# -- interpolation


@means(np.interp)
def interp(x: Array, xp: Any, fp: Array, left: Any = None, right: Any = None, period: Any = None) -> Any:
    x, xp, fp = as_array(x), as_array(xp), as_array(fp)
    if rank(xp) != 1 or shape_of(xp) != shape_of(fp) or not shape_of(xp)[0]:
        np.interp(0.0, np.empty(shape_of(xp)), np.empty(shape_of(fp)))  # ValueError, in NumPy's words
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period = ops.abs(period)
        x, xp = x % period, xp % period
        order = ops.argsort(xp)
        xp, fp = ops.take(xp, order), ops.take(fp, order)
        return ops.interp(x, ops.concat(xp[-1:] - period, xp, xp[:1] + period, axis=0),
                          ops.concat(fp[-1:], fp, fp[:1], axis=0))
    y = ops.interp(x, xp, fp)
    if left is not None:
        y = ops.where(ops.less(x, xp[0]), as_array(left), y)
    return y if right is None else ops.where(ops.greater(x, xp[-1]), as_array(right), y)


# -- phases and windows


@means(np.angle)
def angle(z: Array, deg: bool = False) -> Any:
    y = ops.angle(as_array(z))
    return y * (180 / math.pi) if deg else y


@means(np.i0)
def i0(x: Array) -> Any:
    x = as_array(x)
    if kind_of(x) == "c":
        raise TypeError("i0 not supported for complex values")
    return ops.numpy_i0(x)


@means(np.kaiser)
def kaiser(M: Any, beta: Any) -> Any:
    if M == 1:
        return np.ones(1)
    n, middle = np.arange(float(static(M))), (static(M) - 1) / 2.0
    return i0(beta * np.sqrt(1 - ((n - middle) / middle) ** 2.0)) / i0(beta)
