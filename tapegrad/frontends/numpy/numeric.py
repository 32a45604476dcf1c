"""NumPy's convolutions, interpolation, finite differences, phases and windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tapegrad import ops
from tapegrad.frontends.common import as_array, kept, laid, static
from tapegrad.frontends.numpy.reduce import kind_of
from tapegrad.frontends.numpy.running import diff
from tapegrad.frontends.numpy.shape import atleast, numpy_dtype, rank
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, DType
from tapegrad.ops.shape import along
from tapegrad.rules.op import Op, Traced
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


# -- finite differences


@means(np.gradient)
@laid(kept)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f, edge_order = as_array(f), static(edge_order)
    if kind_of(f) in "iu":
        f = ops.astype(f, dtype=np.dtype(float))
    axes = tuple(range(rank(f))) if axis is None else normalize_axis_tuple(static(axis), rank(f))
    steps = [as_array(step) for step in varargs] or [1.0]
    if len(steps) == 1 and not rank(steps[0]):
        steps *= len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    found = [_slope(f, _step(step, shape_of(f)[at]), at, edge_order) for at, step in zip(axes, steps)]
    return found[0] if len(axes) == 1 else tuple(found)


def _step(step: Any, length: int) -> Any:
    """Return the distances between neighbours; a number if they are all equal."""
    if not rank(step):
        return step
    if rank(step) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if shape_of(step)[0] != length:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    d = diff(as_dtype(step, float) if kind_of(step) in "iu" else step)
    # traced distances may be equal by chance, but each has its own derivative
    return d[0] if not isinstance(d, Traced) and (d == d[0]).all() else d


def _slope(f: Any, d: Any, axis: int, edge_order: int) -> Any:
    """Differentiate along an axis, to second order inside; the coefficients are those of Lagrange polynomials."""
    n = shape_of(f)[axis]
    if n < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient, "
                         "at least (edge_order + 1) elements are required.")

    def part(start: int, stop: int | None) -> Any:
        return f[along(axis, slice(start, stop))]

    def mixed(a: Array, b: Array, c: Array, at: int, stop: int | None) -> Any:
        """Return a f[i] + b f[i + 1] + c f[i + 2], for i from `at` to `stop`."""
        ends = (None if stop is None else stop + k or None for k in range(3))
        x, y, z = (part(at + k, end) for k, end in zip(range(3), ends))
        return a * x + b * y + c * z

    if not rank(d):
        inside = (part(2, None) - part(0, -2)) / (2.0 * d)
        first, last = d, d
    else:
        wide = tuple(-1 if i == axis else 1 for i in range(rank(f)))
        h, k = ops.reshape(d[:-1], wide), ops.reshape(d[1:], wide)
        inside = mixed(-k / (h * (h + k)), (k - h) / (h * k), h / (k * (h + k)), 0, -2)
        first, last = d[0], d[-1]
    if edge_order == 1:
        begin, end = (part(1, 2) - part(0, 1)) / first, (part(n - 1, n) - part(n - 2, n - 1)) / last
    elif not rank(d):
        begin, end = mixed(-1.5 / d, 2.0 / d, -0.5 / d, 0, 1), mixed(0.5 / d, -2.0 / d, 1.5 / d, n - 3, n - 2)
    else:
        h, k = d[0], d[1]
        begin = mixed(-(2.0 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k)), 0, 1)
        h, k = d[-2], d[-1]
        end = mixed(k / (h * (h + k)), -(k + h) / (h * k), (2.0 * k + h) / (k * (h + k)), n - 3, n - 2)
    y = ops.concat(begin, inside, end, axis=axis)
    return as_dtype(y, numpy_dtype(f)) if kind_of(f) in "fc" else y


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
