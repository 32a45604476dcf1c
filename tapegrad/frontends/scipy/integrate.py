"""scipy.integrate: rules for sampled integrands, quadrature differentiated as an integral, and boundary values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import scipy.integrate as si
from scipy.integrate import _bvp

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.scipy.results import converged, part_of
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.ops.shape import along
from tapegrad.ops.solver import Limits, Solver
from tapegrad.rules.registry import means, refuse, refused


def widths(y: Array, x: Array, dx: Cotangent, axis: int) -> Any:
    """Return the distances between samples, in a shape that broadcasts against pairs of `y`."""
    if x is None:
        return as_array(dx)
    at = as_array(x)
    if len(shape_of(at)) != 1:
        return at[along(axis, slice(1, None))] - at[along(axis, slice(None, -1))]
    shape = [1] * len(shape_of(y))
    shape[axis] = -1
    return ops.reshape(at[1:] - at[:-1], tuple(shape))


def areas(y: Array, x: Array, dx: Cotangent, axis: int) -> Any:
    """Return the areas of the trapezoids."""
    return widths(y, x, dx, axis) * (y[along(axis, slice(1, None))] + y[along(axis, slice(None, -1))]) / 2.0


@means(si.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    if x is not None and len(shape_of(as_array(x))) > 1:
        np.broadcast_to(np.empty(shape_of(as_array(x))), shape_of(as_array(y)))  # ValueError, in NumPy's words
    return ops.sum(areas(as_array(y), x, dx, static(axis)), axis=static(axis))


@means(si.cumulative_trapezoid)
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    if initial not in (None, 0):
        raise ValueError("`initial` must be `None` or `0`.")
    if x is not None and shape_of(as_array(x))[-1 if len(shape_of(as_array(x))) == 1
                                               else static(axis)] != shape_of(as_array(y))[static(axis)]:
        raise ValueError("If given, length of x along axis must be the same as y.")
    total = ops.cumulative_sum(areas(as_array(y), x, dx, static(axis)), axis=static(axis))
    return total if initial is None else np.concatenate([np.zeros_like(total[along(axis, slice(0, 1))]), total],
                                                        axis=axis)


@means(si.simpson)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate parabolas through three samples each; for an even number of samples the last interval by Cartwright
    (2017), eq. 8.
    """
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
    """Return `a / b`, and 0 where `b` is 0 because two samples coincide."""
    apart = ops.not_equal(b, 0)
    return ops.where(apart, a / ops.where(apart, b, 1.0), 0.0)


# -- quadrature


def _integrand(x: Array, given: dict[str, Any]) -> Any:
    args = given.get("args", ())
    return given["func"](x, *(args if isinstance(args, tuple) else (args,)))


def _limits(given: dict[str, Any]) -> Limits:
    return Limits(given["a"], given["b"], given.get("points"))


_QUAD = Solver("quad", lambda given: si.quad(**given), _integrand, "integral", facts=True, limits=_limits)
# computed at import: while a trace runs these functions have other code
_SIGNATURES = {fn: signature(fn) for fn in (si.quad, si.dblquad, si.tplquad, si.nquad, si.quad_vec, si.solve_bvp)}


def _bound(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(_SIGNATURES[fn].bind(*args, **kwargs).arguments)


@means(si.quad)
def quad(*args: Any, **kwargs: Any) -> Any:
    given = _bound(si.quad, args, kwargs)
    for name in ("full_output", "weight", "complex_func"):
        if given.get(name):
            raise refused(f"quad with {name}", "only the integral of a real function and its error estimate can be "
                                               "recorded",
                          f"call it without {name}; put the weight into the integrand, or integrate real and imaginary "
                          "parts separately")
    return _QUAD(given)


def _nested(given: dict[str, Any]) -> Any:
    """Return an integral over several variables as nested integrals, as `nquad` computes it."""
    func, ranges, options = given["func"], given["ranges"], given.get("opts")
    options = (list(options) if isinstance(options, (list, tuple))
               else [{} if options is None else options] * len(ranges))

    def integral(depth: int, *at: Any) -> Any:
        limits, option = (x(*at) if callable(x) else x for x in (ranges[depth], options[depth]))
        option = dict(option)
        if "points" in option:
            option["points"] = [x for x in option["points"] if limits[0] <= x <= limits[1]]
        return quad(functools.partial(integral, depth - 1) if depth else func, *limits, args=at, **option)[0]
    return integral(len(ranges) - 1, *(given.get("args") or ()))


_NQUAD = Solver("nquad", lambda given: si.nquad(**given), _nested, "composite", facts=True)


def _with_error(fn: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by name; refuse `full_output`."""
    given = _bound(fn, args, kwargs)
    if given.get("full_output"):
        raise refused(f"{fn.__name__} with full_output", "only the integral and its error estimate can be recorded",
                      "call it without full_output")
    return given


@means(si.nquad)
def nquad(*args: Any, **kwargs: Any) -> Any:
    return _NQUAD(_with_error(si.nquad, args, kwargs))


def _at(limit: Any, *at: Any) -> Any:
    return limit(*at) if callable(limit) else limit


def _between(low: Any, high: Any, count: int) -> Any:
    """Return the range of a variable whose limits are numbers, or functions of the `count` outer variables."""
    return lambda *at: [_at(low, *at[:count][::-1]), _at(high, *at[:count][::-1])]


def _over(ranges: list[Any], given: dict[str, Any]) -> Any:
    """Return the integral over these ranges to SciPy's tolerances, with the remaining arguments of the call."""
    return nquad(given.pop("func"), ranges, args=given.pop("args", ()),
                 opts={"epsabs": 1.49e-8, "epsrel": 1.49e-8, **given})


@means(si.dblquad)
def dblquad(*args: Any, **kwargs: Any) -> Any:
    given = _bound(si.dblquad, args, kwargs)
    return _over([_between(given.pop("gfun"), given.pop("hfun"), 1), [given.pop("a"), given.pop("b")]], given)


@means(si.tplquad)
def tplquad(*args: Any, **kwargs: Any) -> Any:
    given = _bound(si.tplquad, args, kwargs)
    ranges = [_between(given.pop("qfun"), given.pop("rfun"), 2), _between(given.pop("gfun"), given.pop("hfun"), 1),
              [given.pop("a"), given.pop("b")]]
    return _over(ranges, given)


_QUAD_VEC = Solver("quad_vec", lambda given: si.quad_vec(**given)[:2],
                   lambda x, given: _integrand(x, {**given, "func": given["f"]}), "integral", facts=True,
                   limits=_limits)


@means(si.quad_vec)
def quad_vec(*args: Any, **kwargs: Any) -> Any:
    return _QUAD_VEC(_with_error(si.quad_vec, args, kwargs))


# -- boundary value problems: the solution of SciPy's collocation equations is differentiated, with its mesh fixed


def _collocated(given: dict[str, Any]) -> Any:
    found = converged("solve_bvp", si.solve_bvp(**given))
    return np.concatenate([found.y.ravel(), [] if found.p is None else found.p, found.x])


def _parts(z: Any, given: dict[str, Any]) -> tuple[Any, tuple[Any, ...], Any]:
    """Return the values, the parameters and the mesh that the vector `z` holds."""
    n, k = shape_of(as_array(given["y"]))[0], 0 if given.get("p") is None else shape_of(as_array(given["p"]))[0]
    m = (shape_of(z)[0] - k) // (n + 1)
    return ops.reshape(z[:n * m], (n, m)), ((z[n * m:n * m + k],) if k else ()), z[n * m + k:]


def _equations(z: Any, given: dict[str, Any]) -> Any:
    """Return the residuals of the collocation equations, in each interval and at both ends (J. Kierzenka and
    L. F. Shampine, "A BVP solver based on residual control and the Maltab PSE", 2001).
    """
    y, p, mesh = _parts(z, given)
    x = ops.stop_gradient(mesh)
    h, f = x[1:] - x[:-1], as_array(given["fun"](x, y, *p))
    middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
    between = as_array(given["fun"](x[:-1] + 0.5 * h, middle, *p))
    inside = y[:, 1:] - y[:, :-1] - h / 6 * (f[:, :-1] + f[:, 1:] + 4 * between)
    ends = as_array(given["bc"](y[:, 0], y[:, -1], *p))
    return ops.concat(ops.reshape(inside, (-1,)), ops.reshape(ends, (-1,)), mesh - x, axis=0)


def _adjoint(z: Any, dz: Any, given: dict[str, Any]) -> Any:
    return np.linalg.solve(Solver.jacobian(lambda z: _equations(z, given), z).T, dz)


_BVP = Solver("solve_bvp", _collocated, _equations, adjoint=_adjoint)


@means(si.solve_bvp)
def solve_bvp(*args: Any, **kwargs: Any) -> Any:
    given = _bound(si.solve_bvp, args, kwargs)
    if given.get("S") is not None:
        raise refused("solve_bvp with a singular term", "its derivative is not implemented",
                      "start the equation a little beyond the singular point")
    for name in ("x", "y", "p"):  # initial guesses have no gradient
        given[name] = None if given.get(name) is None else ops.stop_gradient(as_array(given[name]))
    y, p, mesh = _parts(_BVP(given), given)
    mesh = ops.stop_gradient(mesh)
    slopes = as_array(given["fun"](mesh, y, *p))
    return part_of(_bvp.BVPResult, sol=_bvp.create_spline(y, slopes, mesh, mesh[1:] - mesh[:-1]),
                   p=p[0] if p else None, x=mesh, y=y, yp=slopes, status=0, message=_bvp.TERMINATION_MESSAGES[0],
                   success=True)


refuse(si.nsum, why="the derivative of its formula for the integral to infinity is nan",
       try_="sum enough terms, f(np.arange(1, n)).sum()", derivative=True)
