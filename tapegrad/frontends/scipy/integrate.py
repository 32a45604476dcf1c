"""scipy.integrate: rules of quadrature; the solvers, whose steps depend on values, are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate as si

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.ops.shape import along
from tapegrad.rules import means, refuse
from tapegrad.tangent import shape_of


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


refuse(si.odeint, si.solve_ivp, si.solve_bvp, why="the steps of the solver depend on values", derivative=True,
       try_="write the steps of the solver in NumPy, as a loop: they are recorded")
refuse(si.quad, si.dblquad, si.tplquad, si.nquad, si.quad_vec, si.fixed_quad, why="it runs other code on plain numbers", derivative=True,
       try_="a fixed rule: np.polynomial.legendre.leggauss gives nodes and weights, and the sum is recorded")
