"""scipy.interpolate: piecewise polynomials, B-splines and tables on grids, differentiable by data, knots and points.

SciPy's Python code runs as it is. This file implements what SciPy compiles: the evaluation of polynomials and B-splines
(C. de Boor, A Practical Guide to Splines, 1978), and the search for the cells of a grid.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from math import factorial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.interpolate as si
from scipy.linalg import solve_banded
from scipy.special import comb

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.python_code import number
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.op import Traced, holds_traced
from tapegrad.rules.registry import constructs, means, refused, register
from tapegrad.trace.interposition import with_names
from tapegrad.trace.views import peek
from tapegrad.tree.copies import own_attributes


def method(fn: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the implementation of a method for an object or arguments that hold traced values."""
    def decorate(meaning: Callable[..., Any]) -> Callable[..., Any]:
        def called(_tracer: Any, own: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
            return (meaning if holds_traced([*own_attributes(self).values(), *args, *kwargs.values()])
                    else own)(self, *args, **kwargs)
        constructs(fn, interposed=True)(called)
        return meaning
    return decorate


# The implementing classes: since SciPy 1.18 the public classes delegate to them.
_polynomials: Any = importlib.import_module("scipy.interpolate._interpolate")
_splines: Any = importlib.import_module("scipy.interpolate._bsplines")
_PPoly, _BPoly = (getattr(_polynomials, f"_{cls.__name__}", cls) for cls in (si.PPoly, si.BPoly))
_BSpline = getattr(_splines, "_BSpline", si.BSpline)


# -- piecewise polynomials


def _cells(grid: Any, x: Any, first: int, last: int) -> Any:
    """Return the index of each point's interval; points outside belong to the first or the last."""
    return np.clip(np.searchsorted(grid, x, side="right") - 1, first, last)


def _within(y: Any, x: Any, low: Any, high: Any, extrapolate: Any) -> Any:
    """Return values; nan outside the interval unless they are extrapolated."""
    return y if extrapolate else np.where(((x < low) | (x > high))[:, None], np.nan, y)


@method(_PPoly.__call__)
def call(self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Return a piecewise polynomial at points, with the axes and periods of `_PPolyBase.__call__`."""
    if self.x[-1] < self.x[0]:
        raise refused(f"{type(self).__name__.lstrip('_')} of decreasing breakpoints",
                      "only increasing breakpoints are supported", "reverse the breakpoints and coefficients")
    extrapolate, x, (low, high) = (self.extrapolate if extrapolate is None else extrapolate, as_array(x),
                                   (self.x[0], self.x[-1]))
    at = np.ravel(x)
    if extrapolate == "periodic":
        at, extrapolate = low + (at - low) % (high - low), False
    c = self.c.reshape(self.c.shape[0], self.c.shape[1], -1)
    y = _within((_bernstein if isinstance(self, _BPoly) else _powers)(self, c, at, nu), at, low, high, extrapolate)
    y, n = y.reshape(np.shape(x) + self.c.shape[2:]), np.ndim(x)
    return np.moveaxis(y, range(n), range(self.axis, self.axis + n)) if self.axis else y


def _powers(self: Any, c: Any, x: Any, nu: int) -> Any:
    i, degree, y = _cells(self.x, x, 0, c.shape[1] - 1), len(c) - 1, 0.0
    s = (x - self.x[i])[:, None]
    for k in range(degree, max(nu, 0) - 1, -1):  # Horner's rule; a negative order integrates
        y = y * s + c[degree - k][i] * (factorial(k) / factorial(k - nu))
    return y * s ** -nu if nu < 0 else y + 0.0 * c[0][i] * s


def _bernstein(self: Any, c: Any, x: Any, nu: int) -> Any:
    width = np.diff(self.x)
    for _ in range(nu):
        c = (len(c) - 1) * np.diff(c, axis=0) / width[:, None] if len(c) > 1 else 0.0 * c
    i, k = _cells(self.x, x, 0, c.shape[1] - 1), len(c) - 1
    s = ((x - self.x[i]) / width[i])[:, None]
    return sum(c[a][i] * comb(k, a) * s ** a * (1 - s) ** (k - a) for a in range(k + 1))


@method(_PPoly.antiderivative)
def antiderivative(self: Any, nu: int = 1) -> Any:
    if nu <= 0:
        return self.derivative(-nu)
    c, width = self.c, np.diff(self.x)
    width = width.reshape(-1, *[1] * (c.ndim - 2))
    for _ in range(nu):
        c = [part / (len(c) - k) for k, part in enumerate(c)]
        whole = 0.0  # the integral over each interval
        for part in c:
            whole = (whole + part) * width
        c = np.stack([*c, np.concatenate([np.zeros((1, *whole.shape[1:])),  # type: ignore[attr-defined]
                                          np.cumsum(whole, axis=0)[:-1]])])
    return self.construct_fast(c, self.x, False if self.extrapolate == "periodic" else self.extrapolate, self.axis)


@method(_PPoly.integrate)
def integrate(self: Any, a: Any, b: Any, extrapolate: Any = None) -> Any:
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    if extrapolate == "periodic":
        raise refused("the integral of a periodic piecewise polynomial",
                      "the number of periods in the interval depends on values",
                      "integrate over one period with its antiderivative")
    whole = self.antiderivative()
    found = whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)
    return found if shape_of(found) else ops.array(found)


# -- B-splines


def basis(t: Any, k: int, x: Any) -> tuple[Any, list[Any]]:
    """Return for each point the index of the last of its k + 1 nonzero B-splines, and the values of all of them."""
    i = _cells(t, x, k, len(t) - k - 2)
    values: list[Any] = [np.ones(len(x))]
    for r in range(1, k + 1):
        shares = [(x - t[i - r + a]) / (t[i + a] - t[i - r + a]) for a in range(1, r + 1)]
        values = [(values[a - 1] * shares[a - 1] if a else 0.0) + (values[a] * (1 - shares[a]) if a < r else 0.0)
                  for a in range(r + 1)]
    return i, values


def evaluate_spline(t: Any, c: Any, k: int, x: Any, nu: int, extrapolate: Any) -> Any:
    low, high, n = t[k], t[len(t) - k - 1], len(t) - k - 1
    c = c[:n]
    for _ in range(nu):
        if k == 0:
            return np.zeros((len(x), c.shape[1]))
        width = t[k + 1:k + n] - t[1:n]
        c = k * np.diff(c, axis=0) / np.where(width == 0, 1.0, width)[:, None]
        t, k, n = t[1:-1], k - 1, n - 1
    i, values = basis(t, k, x)
    return _within(sum(value[:, None] * c[i - k + a] for a, value in enumerate(values)), x, low, high, extrapolate)


def _collocate(x: Any, t: Any, k: int, transposed: Any, offset: int = 0) -> None:
    """Write the B-splines' values at points into a banded matrix in LAPACK's layout."""
    i, values = basis(t, k, x)
    for a, value in enumerate(values):
        at = i - k + a
        transposed[at, 2 * k + offset + np.arange(len(x)) - at] = value


def _all_splines(t: Any, k: int, x: float, left: int, nu: int = 0) -> Any:
    return evaluate_spline(t, np.eye(len(t) - k - 1), k, np.array([x]), nu, True)[0, left - k:left + 1]


def _solve(kl: int, ku: int, ab: Any, b: Any, **_overwrite: Any) -> tuple[Any, Any, Any, int]:
    return None, None, solve_banded((kl, ku), ab[kl:], b), 0


def _periodic(*args: Any, **kwargs: Any) -> Any:
    raise refused("make_interp_spline with bc_type='periodic'", "its matrix is cyclic, and has no derivative rule",
                  "CubicSpline(x, y, bc_type='periodic')")


_fitpack: Any = importlib.import_module("scipy.interpolate._fitpack_impl")
_compiled = SimpleNamespace(evaluate_spline=lambda *args: _written(*args), _coloc=_collocate,
                            evaluate_all_bspl=_all_splines,
                            find_interval=lambda t, k, x, left, extrapolate: int(_cells(t, x, k, len(t) - k - 2)))


@means(si.splint, _fitpack.splint)
def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    t, c, k = tck
    if full_output:
        raise UnknownFunction("splint with full_output is not supported", user_location(), "full_output=0")
    whole = si.BSpline(t, c[:len(t) - k - 1], k).antiderivative()
    low, high = t[k], t[len(t) - k - 1]
    y = whole(np.clip(b, low, high)) - whole(np.clip(a, low, high))
    return y if shape_of(y) else number(y)


def _written(*args: Any) -> Any:
    """Return a spline at points; or write it into an array, which SciPy 1.15 passes."""
    y = evaluate_spline(*args[:6])
    if len(args) < 7:
        return y
    args[6][...] = y.reshape(args[6].shape)
    return None


if hasattr(_splines, "_dierckx"):  # since SciPy 1.15
    _names = {"_dierckx": _compiled, "_bspl": _compiled, "get_lapack_funcs": lambda names, arrays: (_solve,),
              "_make_periodic_spline": _periodic,
              "_fitpack_impl": SimpleNamespace(splint=splint, splantider=_fitpack.splantider)}
    _names["_handle_lhs_derivatives"] = with_names(_splines._handle_lhs_derivatives, _names)
    for _name in ("__call__", "_evaluate", "integrate"):
        if _name in vars(_BSpline):
            method(vars(_BSpline)[_name])(with_names(vars(_BSpline)[_name], _names))
    register(si.make_interp_spline, with_names(si.make_interp_spline, _names))


@means(si.make_lsq_spline)
def make_lsq_spline(x: Any, y: Any, t: Any, k: int = 3, w: Any = None, axis: int = 0, check_finite: bool = True, *,
                    method: str = "qr") -> Any:
    x, t = as_array(x), as_array(t)
    y = np.moveaxis(as_array(y), axis, 0)
    values = evaluate_spline(t, np.eye(len(t) - k - 1), k, x, 0, True)
    weights = np.ones(len(x)) if w is None else as_array(w)
    c = np.linalg.lstsq(values * weights[:, None], y.reshape(len(x), -1) * weights[:, None])[0]
    return si.BSpline.construct_fast(t, c.reshape(-1, *y.shape[1:]), k, axis=axis)


@means(si.splrep)
def splrep(x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None,
           t: Any = None, full_output: int = 0, per: int = 0, quiet: int = 1) -> Any:
    x = as_array(x)
    simple = task in (0, -1) and not full_output and not per and k % 2 and xb in (None, x[0]) and xe in (None, x[-1])
    if not simple or (t is None and (s is not None or w is not None) and s != 0):
        raise refused("splrep with smoothing", "FITPACK chooses the knots depending on values",
                      "splrep(x, y, s=0), make_smoothing_spline(x, y, lam=...)")
    if t is None:
        made = si.make_interp_spline(x, y, k)
    else:
        made = make_lsq_spline(x, y, np.r_[[x[0]] * (k + 1), t, [x[-1]] * (k + 1)], k, w)
    return made.t, np.concatenate([made.c, np.zeros(k + 1)]), k


@means(si.splev, _fitpack.splev)
def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    t, c, k = tck
    if isinstance(c, (list, tuple)):
        return [splev(x, (t, part, k), der, ext) for part in c]
    x, (low, high) = as_array(x), (t[k], t[len(t) - k - 1])
    if ext == 2 and np.any((x < low) | (x > high)):
        raise ValueError("A value in x is outside of the spline's knots, and ext=2")
    y = si.BSpline(t, c[:len(t) - k - 1], k)(np.clip(x, low, high) if ext == 3 else x, nu=der)
    return np.where((x < low) | (x > high), 0.0, y) if ext == 1 else y


@means(si.UnivariateSpline.__init__)
def smoothing(self: Any, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, s: Any = None,
              ext: Any = 0, check_finite: bool = False) -> None:
    if s != 0:
        raise refused(f"{type(self).__name__} with smoothing", "FITPACK chooses the knots depending on values",
                      "UnivariateSpline(x, y, s=0), make_smoothing_spline(x, y, lam=...)")
    _fitted(self, splrep(x, y, w, *bbox, k=k, s=0), ext)


@means(si.InterpolatedUnivariateSpline.__init__)
def interpolating(self: Any, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0,
                  check_finite: bool = False) -> None:
    _fitted(self, splrep(x, y, w, *bbox, k=k, s=0), ext)


@means(si.LSQUnivariateSpline.__init__)
def least_squares(self: Any, x: Any, y: Any, t: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0,
                  check_finite: bool = False) -> None:
    _fitted(self, splrep(x, y, w, *bbox, k=k, t=t), ext)


def _fitted(self: Any, tck: Any, ext: Any) -> None:
    self._eval_args, self.ext = tck, {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}.get(ext, ext)


def _fixed(x: Any, what: str, why: str, cure: str) -> Any:
    """Return arguments as plain arrays; refuse those that a gradient would flow through."""
    if isinstance(x, tuple):
        return tuple([_fixed(part, what, why, cure) for part in x])
    if isinstance(x := as_array(x), Traced) and not x._tracer.independent(peek(x)):
        raise refused(what, why, cure)
    return x if x is None else np.array(plain(x))


@means(si.make_smoothing_spline)
def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, *, axis: int = 0) -> Any:
    if lam is None:
        raise refused("make_smoothing_spline without lam", "lam is then chosen depending on values",
                      "make_smoothing_spline(x, y, lam=...)")
    y, x, w, lam = np.moveaxis(as_array(y), axis, 0), *[
        _fixed(part, "make_smoothing_spline differentiated by x, w or lam", "its matrices are made by compiled code",
               "differentiate by y only; or scipy.interpolate.make_lsq_spline") for part in (x, w, lam)]
    # column by column: before SciPy 1.16 it takes one column only
    made = [si.make_smoothing_spline(x, unit, w, lam) for unit in plain(np.eye(len(y)))]
    return si.BSpline.construct_fast(made[0].t, np.tensordot(np.stack([one.c for one in made], axis=1), y, 1),
                                     made[0].k, axis=axis)


# -- tables on grids, and scattered data


@means(si.griddata)
def griddata(points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = np.nan,
             rescale: bool = False) -> Any:
    """Interpolate between scattered points; the result is linear in the values."""
    if method == "cubic":
        raise refused("griddata with method='cubic'", "slopes are found by an iteration that is not recorded",
                      "method='linear'")
    values, (points, xi) = as_array(values), _fixed((points, xi), "griddata differentiated by its points",
                                                    "the search for points is in compiled code",
                                                    "RegularGridInterpolator; or differentiate griddata by its values")
    weights = si.griddata(points, plain(np.eye(len(values))), xi, method=method, rescale=rescale)
    outside = np.isnan(weights).any(axis=-1)
    y = np.tensordot(np.where(outside[..., None], 0.0, weights), values, 1)
    return np.where(outside.reshape(outside.shape + (1,) * (values.ndim - 1)), fill_value, y)


_grids: Any = importlib.import_module("scipy.interpolate._rgi")


def _coordinates(points: Any, ndim: Any = None) -> Any:
    """Return points as rows of coordinates."""
    if isinstance(points, tuple):
        return np.stack(np.broadcast_arrays(*map(as_array, points)), axis=-1)
    points = as_array(points)
    return points if points.ndim > 1 else points.reshape(-1, 1) if ndim in (None, 1) else points.reshape(-1, ndim)


@method(_grids.RegularGridInterpolator._find_indices)
def find_indices(self: Any, xi: Any) -> tuple[Any, Any]:
    """Return the cells of the grid that points lie in, and the relative positions in them."""
    cells = [_cells(grid, x, 0, max(len(grid) - 2, 0)) for grid, x in zip(self.grid, xi)]
    shares = [(x - grid[i]) / (grid[i + 1] - grid[i]) if len(grid) > 1 else 0.0 * x
              for grid, x, i in zip(self.grid, xi, cells)]
    return np.stack(cells), np.stack(shares)


def _evaluate_linear(values: Any, indices: Sequence[Any], distances: Sequence[Any], grid: Any, out: Any) -> Any:
    (i, j), (u, v) = indices, distances
    return (values[i, j] * (1 - v) + values[i, j + 1] * v) * (1 - u) + (values[i + 1, j] * (1 - v)
                                                                        + values[i + 1, j + 1] * v) * u


for _fn in (_grids.RegularGridInterpolator._prepare_xi, _grids.RegularGridInterpolator.__call__):
    method(_fn)(with_names(_fn, {"evaluate_linear_2d": _evaluate_linear, "_ndim_coords_from_arrays": _coordinates}))
register(si.interpn, with_names(si.interpn, {"_ndim_coords_from_arrays": _coordinates}))


# -- several dimensions


def _along_each(x: Any, matrix: Callable[[int, Any], Any], c: Any) -> Any:
    """Return a tensor product at points: `matrix(i, x)` has the basis functions' values along coordinate `i`."""
    y = np.tensordot(matrix(0, x[:, 0]), c, 1)
    for i in range(1, x.shape[1]):
        factor = matrix(i, x[:, i])
        y = np.sum(factor.reshape(factor.shape + (1,) * (y.ndim - 2)) * y, axis=1)
    return y


@method(si.NdBSpline.__call__)
def nd_spline(self: Any, xi: Any, *, nu: Any = None, extrapolate: Any = None) -> Any:
    x, t, k = as_array(xi) * 1.0, self.t, self.k
    extrapolate = self.extrapolate if extrapolate is None else bool(extrapolate)
    orders = [0] * len(t) if nu is None else [int(n) for n in nu]
    if x.shape[-1] != len(t) or len(orders) != len(t):
        raise ValueError(f"Shapes: xi.shape={x.shape} and ndim={len(t)}")

    def splines(i: int, at: Any) -> Any:
        return evaluate_spline(t[i], np.eye(len(t[i]) - k[i] - 1), k[i], at, orders[i], extrapolate)
    y = _along_each(x.reshape(-1, len(t)), splines, self.c)
    return y.reshape(x.shape[:-1] + self.c.shape[len(t):])


@method(si.NdPPoly.__call__)
def nd_polynomial(self: Any, x: Any, nu: Any = None, extrapolate: Any = None) -> Any:
    x, ndim = _coordinates(x), len(self.x)
    extrapolate = self.extrapolate if extrapolate is None else bool(extrapolate)
    at = x.reshape(-1, ndim)
    cells = [_cells(grid, at[:, i], 0, len(grid) - 2) for i, grid in enumerate(self.x)]
    c = self.c[(slice(None),) * ndim + tuple(cells)]
    for i, (grid, order) in enumerate(zip(self.x, [0] * ndim if nu is None else nu)):
        degree, s, y = len(c) - 1, at[:, i] - grid[cells[i]], 0.0
        s = s.reshape((-1,) + (1,) * (c.ndim - ndim + i - 1))
        for k in range(degree, int(order) - 1, -1):  # Horner's rule
            y = y * s + c[degree - k] * (factorial(k) / factorial(k - int(order)))
        c = y if np.ndim(plain(y)) else 0.0 * c[0]
    outside = [(at[:, i] < grid[0]) | (at[:, i] > grid[-1]) for i, grid in enumerate(self.x)]
    if not extrapolate:
        c = np.where(np.any(outside, axis=0).reshape((-1,) + (1,) * (c.ndim - 1)), np.nan, c)
    return c.reshape(x.shape[:-1] + self.c.shape[2 * ndim:])


_radial: Any = importlib.import_module("scipy.interpolate._rbfinterp")
if hasattr(_radial, "_get_backend"):  # since SciPy 1.17 the formulas exist in Python code too
    _formulas = importlib.import_module("scipy.interpolate._rbfinterp_xp")

    @means(_formulas.thin_plate_spline)
    def thin_plate_spline(r: Any, xp: Any) -> Any:  # SciPy's `where` masks log(0), whose derivative is infinite
        return r ** 2 * np.log(np.where(r == 0, 1.0, r))

    for _fn in (si.RBFInterpolator.__init__, si.RBFInterpolator.__call__, si.RBFInterpolator._chunk_evaluator):
        method(_fn)(with_names(_fn, {"_get_backend": lambda xp: _formulas}))
