"""scipy.integrate: rules of quadrature; the solvers, whose steps depend on values, are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate as si

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.numbers.cotangents import shape_of
from tapegrad.ops.shape import along
from tapegrad.rules.registry import means, refuse


def widths(y: Any, x: Any, dx: Any, axis: int) -> Any:
    """Return how far apart the samples stand, in a shape that broadcasts against the pairs of `y`."""
    if x is None:
        return as_array(dx)
    at = as_array(x)
    if len(shape_of(at)) != 1:
        return at[along(axis, slice(1, None))] - at[along(axis, slice(None, -1))]
    shape = [1] * len(shape_of(y))
    shape[axis] = -1
    return ops.reshape(at[1:] - at[:-1], tuple(shape))


def areas(y: Any, x: Any, dx: Any, axis: int) -> Any:
    """Return the area of each trapezoid."""
    return widths(y, x, dx, axis) * (y[along(axis, slice(1, None))] + y[along(axis, slice(None, -1))]) / 2.0


@means(si.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    return ops.sum(areas(as_array(y), x, dx, static(axis)), axis=static(axis))


@means(si.cumulative_trapezoid)
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    if initial not in (None, 0):
        raise ValueError("`initial` must be `None` or `0`.")
    total = ops.cumulative_sum(areas(as_array(y), x, dx, static(axis)), axis=static(axis))
    return total if initial is None else np.concatenate([np.zeros_like(total[along(axis, slice(0, 1))]), total], axis=axis)


@means(si.simpson)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate parabolas through three samples each; with an even number of samples the last interval by Cartwright (2017), eq. 8."""
    y = np.moveaxis(as_array(y), static(axis), -1)
    n = shape_of(y)[-1]
    if x is not None:
        x = as_array(x)
        x = x if len(shape_of(x)) == 1 else np.moveaxis(x, static(axis), -1)
        if shape_of(x)[-1] != n or len(shape_of(x)) not in (1, len(shape_of(y))):
            raise ValueError("If given, shape of `x` must be 1-D or the same as `y`.")
    h = widths(y, x, dx, -1)
    h = np.broadcast_to(h, (n - 1,)) if x is None else h
    if n == 2:
        return 0.5 * h[..., 0] * (y[..., 0] + y[..., 1])
    odd = n - (n + 1) % 2
    y0, y1, y2 = y[..., 0:odd - 2:2], y[..., 1:odd - 1:2], y[..., 2:odd:2]
    if x is None:
        total = dx / 3.0 * ops.sum(y0 + 4.0 * y1 + y2, axis=-1)
    else:
        h0, h1 = h[..., 0:odd - 1:2], h[..., 1:odd - 1:2]
        width, skew = h0 + h1, ratio(h0, h1)
        parabolas = y0 * (2.0 - ratio(1.0, skew)) + y1 * (width * ratio(width, h0 * h1)) + y2 * (2.0 - skew)
        total = ops.sum(width / 6.0 * parabolas, axis=-1)
    if odd == n:
        return total
    a, b = h[..., -2], h[..., -1]
    last = ratio(2 * b ** 2 + 3 * a * b, 6 * (b + a)) * y[..., -1] + ratio(b ** 2 + 3 * a * b, 6 * a) * y[..., -2]
    return total + (last - ratio(b ** 3, 6 * a * (a + b)) * y[..., -3])


def ratio(a: Any, b: Any) -> Any:
    """Return `a / b`, and 0 where two samples stand at one place."""
    apart = ops.not_equal(b, 0)
    return ops.where(apart, a / ops.where(apart, b, 1.0), 0.0)


refuse(si.odeint, si.solve_ivp, si.solve_bvp, why="the steps of the solver depend on values", derivative=True,
       try_="write the steps of the solver in NumPy, as a loop: they are recorded")
refuse(si.quad, si.dblquad, si.tplquad, si.nquad, si.quad_vec, si.fixed_quad, why="it runs other code on plain numbers", derivative=True,
       try_="a fixed rule: np.polynomial.legendre.leggauss gives nodes and weights, and the sum is recorded")
