"""scipy.interpolate by FITPACK: surfaces, their fits with given knots, derivatives of B-splines and inserted knots.

SciPy's Python code runs as it is; FITPACK's evaluation is written in ops. A fit with given knots is linear in the data;
its matrix is found by fitting unit vectors (P. Dierckx, "Curve and Surface Fitting with Splines", 1993).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.interpolate as si

from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.interpolate import evaluate_spline, method, splint
from tapegrad.frontends.scipy.python_code import number, run_with
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import refused
from tapegrad.trace.interposition import with_names
from tapegrad.trace.views import peek

_impl: Any = importlib.import_module("scipy.interpolate._fitpack_impl")
_classes: Any = importlib.import_module("scipy.interpolate._fitpack2")
_old: Any = getattr(_classes, "dfitpack", None)  # before SciPy 1.18: the wrapper of all of FITPACK's Fortran


def _fitting(name: str) -> Any:
    """Return SciPy's fitting function `name`."""
    return getattr(_old, name) if _old else getattr(_classes, f"_{name}")


def _splines(t: Any, k: int, x: Any, nu: int) -> Any:
    """Return the B-splines of some knots, or their derivatives, at points, which are clipped to the ends."""
    n = len(t) - k - 1
    return evaluate_spline(as_array(t), np.eye(n), int(k), np.clip(np.ravel(as_array(x)) * 1.0, t[k], t[n]), int(nu),
                           True)


def _coefficients(tx: Any, ty: Any, c: Any, kx: int, ky: int) -> Any:
    return np.reshape(as_array(c)[:(len(tx) - kx - 1) * (len(ty) - ky - 1)], (len(tx) - kx - 1, len(ty) - ky - 1))


def on_grid(tx: Any, ty: Any, c: Any, kx: int, ky: int, *rest: Any) -> tuple[Any, int]:
    nx, ny, x, y = rest if len(rest) == 4 else (0, 0, *rest)
    return _splines(tx, kx, x, nx) @ _coefficients(tx, ty, c, kx, ky) @ _splines(ty, ky, y, ny).T, 0


def at_points(tx: Any, ty: Any, c: Any, kx: int, ky: int, *rest: Any) -> tuple[Any, int]:
    nx, ny, x, y = rest if len(rest) == 4 else (0, 0, *rest)
    return np.sum(_splines(tx, kx, x, nx) @ _coefficients(tx, ty, c, kx, ky) * _splines(ty, ky, y, ny), axis=1), 0


def over_rectangle(tx: Any, ty: Any, c: Any, kx: int, ky: int, xa: Any, xb: Any, ya: Any, yb: Any) -> Any:
    sides = [splint(a, b, (t, np.eye(len(t) - k - 1), k)) for t, k, a, b in ((tx, kx, xa, xb), (ty, ky, ya, yb))]
    return number(sides[0] @ _coefficients(tx, ty, c, kx, ky) @ sides[1])


def derivatives(t: Any, c: Any, order: int, x: Any) -> tuple[Any, int]:
    """Return a spline's derivatives of all orders at a point; None and an error code beyond its ends."""
    k, n = order - 1, len(t) - order
    if not t[k] <= x <= t[n]:
        return None, 10
    return np.stack([(_splines(t, k, [x], nu) @ as_array(c)[:n])[0] for nu in range(order)]), 0


def _linear(fit: Callable[[Any], tuple[Any, ...]], data: Any, place: int) -> tuple[Any, ...]:
    """Return a fit's results; its coefficients, at index `place`, are written as a matrix, found by fitting unit
    vectors, times the data.
    """
    data = as_array(data)
    if not isinstance(data, Traced):
        return fit(data)
    found = list(fit(np.array(plain(data), float)))
    zero = fit(np.zeros(shape_of(data)))[place]
    if found[-1] > 10:  # an error code: SciPy calls again with more memory
        return tuple(found)
    found[place] = np.array(found[place])
    matrix = np.stack([fit(unit)[place] - zero for unit in np.eye(shape_of(data)[0])], axis=1)
    if not np.allclose(matrix @ np.array(plain(data), float) + zero, found[place], 1e-8, 1e-8):
        raise refused("a fit by FITPACK", "its coefficients are not linear in the data", "fit with given knots, s=0")
    found[place] = matrix @ data + zero
    return tuple(found)


def grid(x: Any, y: Any, z: Any, xb: Any, xe: Any, yb: Any, ye: Any, kx: int, ky: int, s: Any, *rest: Any) -> Any:
    """Fit a surface through data on a grid: the coefficients are a tensor product of curves along each axis, found by
    fitting tables that are constant along the other axis.
    """
    _exact("RectBivariateSpline", s)
    x, y = _known(x), _known(y)
    shape, values = (len(x), len(y)), as_array(z)

    def fit(table: Any) -> Any:
        return _fitting("regrid_smth")(x, y, np.ravel(table), xb, xe, yb, ye, kx, ky, 0.0, *rest)
    nx, tx, ny, ty, c, fp, ier = fit(plain(values))
    if ier not in (0, -1, -2):
        return nx, tx, ny, ty, c, fp, ier
    mx, my = nx - kx - 1, ny - ky - 1
    across = [np.stack([np.reshape(fit(np.broadcast_to(np.expand_dims(unit, 1 - axis), shape))[4][:mx * my],
                                   (mx, my)).take(0, 1 - axis) for unit in np.eye(shape[axis])], axis=1)
              for axis in (0, 1)]
    made = np.ravel(across[0] @ np.reshape(values, shape) @ across[1].T)
    if not np.allclose(plain(made), c[:mx * my], 1e-8, 1e-8):
        raise refused("RectBivariateSpline", "its coefficients are not linear in the data", "s=0, and fewer points")
    return nx, tx, ny, ty, made, fp, ier


def _exact(name: str, s: Any) -> None:
    if s != 0:
        raise refused(f"{name} with smoothing", "FITPACK chooses the knots depending on values", "s=0, or given knots")


def _known(x: Any) -> Any:
    if isinstance(x := as_array(x), Traced):
        raise refused("a surface differentiated by the positions of its data", "FITPACK computes the knots from them",
                      "differentiate by its values, or use RegularGridInterpolator")
    return x


def scattered(x: Any, y: Any, z: Any, *rest: Any, **options: Any) -> Any:
    x, y = _known(x), _known(y)
    if any(isinstance(part, Traced) and not part._tracer.independent(peek(part)) for part in rest):
        raise refused("LSQBivariateSpline differentiated by its knots or weights",
                      "FITPACK reads them in compiled code", "differentiate by its values")
    rest = tuple(np.array(plain(part)) if np.ndim(plain(part)) else part for part in rest)  # FITPACK overwrites knots
    return _linear(lambda data: _fitting("surfit_lsq")(x, y, data, *_copied(rest), **options), z, 2)


def _copied(parts: Any) -> Any:
    return [part.copy() if isinstance(part, np.ndarray) else part for part in parts]


def on_sphere(theta: Any, phi: Any, r: Any, *rest: Any, **options: Any) -> Any:
    theta, phi = _known(theta), _known(phi)
    return _linear(lambda data: _fitting("spherfit_lsq")(theta, phi, data, *rest, **options), r, 2)


def _smoothed(*args: Any, **kwargs: Any) -> Any:
    raise refused("a surface with smoothing", "FITPACK chooses the knots depending on values",
                  "LSQBivariateSpline, with given knots; RBFInterpolator")


_EVALUATE = {"bispev": on_grid, "parder": on_grid, "bispeu": at_points, "pardeu": at_points, "dblint": over_rectangle,
             "spalde": derivatives}
_FIT = {"regrid_smth": grid, "surfit_lsq": scattered, "spherfit_lsq": on_sphere, "surfit_smth": _smoothed,
        "spherfit_smth": _smoothed, "regrid_smth_spher": _smoothed}
_NAMES: dict[str, Any] = {"dfitpack": SimpleNamespace(**_EVALUATE, **_FIT)} if _old else {
    "_fitpack": SimpleNamespace(**_EVALUATE), **{f"_{name}": fit for name, fit in _FIT.items()}}

for _fn in (_classes._BivariateSplineBase.__call__, si.BivariateSpline.integral):
    method(_fn)(with_names(_fn, _NAMES))
run_with(*(cls.__init__ for cls in (si.RectBivariateSpline, si.SmoothBivariateSpline, si.LSQBivariateSpline,
                                    si.SmoothSphereBivariateSpline, si.LSQSphereBivariateSpline,
                                    si.RectSphereBivariateSpline)), _impl.bisplev, _impl.spalde, **_NAMES)

_INSERT = "_insert" if _old else "insert"


def _inserted(per: Any, t: Any, c: Any, k: int, x: Any, m: int) -> tuple[Any, Any, int]:
    """Insert a knot. FITPACK's coefficients are linear in the old ones; the unused ones at the end become zeros."""
    def insert(data: Any) -> tuple[Any, Any, int]:
        tt, cc, ier = getattr(_impl._fitpack, _INSERT)(per, t, data, k, x, m)
        return tt, np.append(cc[:len(tt) - k - 1], np.zeros(k + 1)), ier
    return _linear(insert, c, 1)  # type: ignore[return-value]


run_with(_impl.insert, _fitpack=SimpleNamespace(**{_INSERT: _inserted}))
