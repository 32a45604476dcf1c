"""scipy.interpolate: values are SciPy's own, gradients by data, places and points those of differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
from scipy import interpolate as si

import tapegrad as tg
from tapegrad.testing import check_grads

X = np.array([0.31, 0.52, 0.93, 1.44, 1.7, 2.3])
T, AT, ENDS = np.arange(6.0), np.array([0.3, 1.7, 3.2, 4.4, 5.0, 0.0]), np.array([-0.5, 2.0, 5.5])
TABLE, PLANE = np.sqrt(np.arange(1.0, 37.0)).reshape(6, 6), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.6], [0.2, 0.7]])
KNOTS = np.arange(10.0)

OF_DATA: dict[str, Callable[[Any], Any]] = {
    "interp1d": lambda x: si.interp1d(T, x)(AT) + si.interp1d(T, x, kind="cubic")(AT),
    "CubicSpline": lambda x: si.CubicSpline(T, x)(AT) + si.CubicSpline(T, x, bc_type="natural")(AT, 1),
    "CubicSpline outside": lambda x: si.CubicSpline(T, x)(ENDS),
    "CubicSpline of columns": lambda x: si.CubicSpline(T, np.outer(W, x), axis=1)(AT[:4].reshape(2, 2), 1),
    "CubicSpline of a period": lambda x: si.CubicSpline(T, np.concatenate([x[:5], x[:1]]), bc_type="periodic")(ENDS * 3),
    "derivatives": lambda x: si.CubicSpline(T, x).derivative()(AT) + si.CubicSpline(T, x).derivative(2)(AT) + si.CubicSpline(T, x)(AT, 3),
    "integrals": lambda x: si.CubicSpline(T, x).integrate(0.3, 4.1) + si.CubicSpline(T, x).antiderivative(2)(AT) + si.PchipInterpolator(T, x).antiderivative()(2.5),
    "ends of integrals": lambda x: si.CubicSpline(T, T ** 2 % 3).integrate(x[0], x[1]) + si.CubicSpline(T, x).integrate(x[3], x[2]),
    "PchipInterpolator": lambda x: si.PchipInterpolator(T, x)(AT) + si.pchip_interpolate(T, x, AT),
    "Akima1DInterpolator": lambda x: si.Akima1DInterpolator(T, x)(AT),
    "CubicHermiteSpline": lambda x: si.CubicHermiteSpline(T, x, x ** 2)(AT),
    "PPoly": lambda x: si.PPoly(x.reshape(2, 3), T[:4])(AT[:3]) + si.PPoly(x.reshape(3, 2), [0.0, 1.0, 3.0])([0.5, 2.0, 3.5], 1),
    "BPoly": lambda x: si.BPoly(x.reshape(2, 3), T[:4])(AT[:3]) + si.BPoly(x.reshape(3, 2), [0.0, 1.0, 3.0])([0.5, 2.0, 3.5], 1),
    "make_interp_spline": lambda x: si.make_interp_spline(T, x)(AT) + si.make_interp_spline(T, x, k=5)(AT) + si.make_interp_spline(T, x, k=1)(AT),
    "make_interp_spline with ends": lambda x: si.make_interp_spline(T, x, bc_type="natural")(AT) + si.make_interp_spline(T, x, bc_type=([(1, 0.5)], [(2, 0.0)]))(AT, 1),
    "BSpline": lambda x: si.BSpline(KNOTS, x, 3)(AT + 2) + si.BSpline(KNOTS, x, 3).derivative()(AT + 3) + si.BSpline(KNOTS, x, 3)(AT + 2, 2),
    "BSpline's integrals": lambda x: si.BSpline(KNOTS, x, 3).integrate(3.2, 5.1) + si.BSpline(KNOTS, x, 3).integrate(2.0, 6.5, extrapolate=True) + si.BSpline(KNOTS, x, 3).antiderivative()(AT),
    "BSpline of columns": lambda x: si.BSpline(KNOTS, np.outer(x, W), 3)(AT[1:3] + 3),
    "least squares": lambda x: si.make_lsq_spline(T, x, np.r_[[0.0] * 4, 2.5, [5.0] * 4])(AT) + si.LSQUnivariateSpline(T, x, [2.5])(AT),
    "smoothing": lambda x: si.make_smoothing_spline(T, x, lam=0.5)(AT),
    "smoothing at places made inside": lambda x: si.make_smoothing_spline(np.arange(6.0), x, np.ones(6), lam=np.float64(0.5))(AT),
    "FITPACK": lambda x: si.splev(AT, si.splrep(T, x)) + si.splev(AT, si.splrep(T, x), der=1) + si.splint(0.0, 2.3, si.splrep(T, x)),
    "FITPACK's ends": lambda x: sum(si.splev(ENDS, si.splrep(T, x), ext=ext) for ext in (0, 1, 3)),
    "FITPACK's derivatives": lambda x: si.splev(AT, si.splder(si.splrep(T, x))) + si.splev(AT, si.splantider(si.splrep(T, x))),
    "UnivariateSpline": lambda x: si.UnivariateSpline(T, x, s=0)(AT) + si.InterpolatedUnivariateSpline(T, x)(AT, 1) + si.InterpolatedUnivariateSpline(T, x).integral(0.2, 3.0),
    "RegularGridInterpolator": lambda x: si.RegularGridInterpolator((T, T), np.outer(x, x))(np.column_stack([AT, AT[::-1]])),
    "other grids": lambda x: si.RegularGridInterpolator((T,), x, bounds_error=False, fill_value=None)(ENDS) + si.interpn((T, T), np.outer(x, x), np.column_stack([AT, AT]))[:3],
    "the nearest": lambda x: si.RegularGridInterpolator((T, T), np.outer(x, x), method="nearest")(np.column_stack([AT, AT[::-1]])),
    "griddata": lambda x: si.griddata(PLANE, x, np.array([[0.3, 0.3], [0.6, 0.2], [5.0, 5.0]]), fill_value=0.5) + si.griddata(PLANE, x, (0.3, 0.4), method="nearest"),
    "polynomials": lambda x: si.BarycentricInterpolator(T, x)(AT) + si.KroghInterpolator(T, x)(AT) + si.lagrange(T[:3], x[:3])(AT),
}
W = np.array([1.0, -2.0, 0.5])
OF_POINTS: dict[str, Callable[[Any], Any]] = {
    "interp1d": lambda x: si.interp1d(T, T ** 2)(x) + si.interp1d(T, T ** 2 % 3, kind="cubic")(x),
    "CubicSpline": lambda x: si.CubicSpline(T, T ** 2 % 3)(x) + si.CubicSpline(T, T ** 2 % 3)(x * 4, 1) + si.CubicSpline(T, x)(x),
    "PPoly": lambda x: si.PPoly(np.ones((3, 5)), T)(x) + si.BPoly(np.arange(15.0).reshape(3, 5), T)(x),
    "BSpline": lambda x: si.BSpline(KNOTS, T ** 2, 3)(x + 3) + si.BSpline(KNOTS, x, 3)(x + 3, 1) + si.make_interp_spline(T, x)(x),
    "FITPACK": lambda x: si.splev(x, si.splrep(T, T ** 2 % 3)) + si.splev(x, si.splrep(T, x), der=1),
    "RegularGridInterpolator": lambda x: si.RegularGridInterpolator((T, T), TABLE)(np.column_stack([x, x[::-1]])) + si.interpn((T, T), np.outer(x, x), (x, x)),
    "another grid": lambda x: si.RegularGridInterpolator((T, T, T), TABLE[:, :, None] * T)(np.stack([x, x * 2, x + 1], axis=-1)),
}
OF_PLACES: dict[str, Callable[[Any], Any]] = {
    "CubicSpline": lambda x: si.CubicSpline(x, T)(0.5 + AT[:3] / 3) + si.CubicSpline(x, T).integrate(0.4, 1.1),
    "make_interp_spline": lambda x: si.make_interp_spline(x, T ** 2)(0.5 + AT[:3] / 3),
    "PchipInterpolator": lambda x: si.PchipInterpolator(x, T ** 2)(0.5 + AT[:3] / 3),
}


def number(y: Any) -> Any:
    return np.sum(y * np.cos(np.arange(np.size(y))).reshape(np.shape(y)))


def check(f: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(tg.trace(f, X)[0], f(X), rtol=1e-12, atol=1e-13)

        def g(x: Any) -> Any:
            return number(f(x))
        step = tg.value_and_grad(g, argnums=0, warmup=1)
        for k in (1.0, 1.01, 0.99):
            x = X * k
            slopes = [(g(x + 1e-6 * e) - g(x - 1e-6 * e)) / 2e-6 for e in np.eye(6)]
            np.testing.assert_allclose(tg.gradient(g, x)[0], slopes, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(step(x)[1], slopes, rtol=1e-5, atol=1e-6)
            assert step(x)[0] == pytest.approx(g(x))


@pytest.mark.parametrize("name", OF_DATA)
def test_by_data(name: str) -> None:
    check(OF_DATA[name])


@pytest.mark.quick
@pytest.mark.parametrize("name", OF_POINTS)
def test_by_points(name: str) -> None:
    check(OF_POINTS[name])


@pytest.mark.parametrize("name", OF_PLACES)
def test_by_places(name: str) -> None:
    check(OF_PLACES[name])


def test_twice_and_with_float32() -> None:
    def f(x: Any) -> Any:
        return number(si.CubicSpline(T, x)(x) + si.BSpline(KNOTS, x, 3)(x + 3))
    slopes = [(tg.gradient(f, X + 1e-5 * e)[0] - tg.gradient(f, X - 1e-5 * e)[0]) / 2e-5 for e in np.eye(6)]
    np.testing.assert_allclose(tg.hessian(f)(X), slopes, atol=1e-5)
    assert tg.jvp(f, (X,), (np.ones(6),))[1] == pytest.approx(np.sum(tg.gradient(f, X)[0]))
    assert tg.gradient(f, X.astype(np.float32))[0].dtype == np.float32


def test_outside() -> None:
    y, tape = tg.trace(lambda x: si.CubicSpline(T, x, extrapolate=False)(ENDS), X)
    np.testing.assert_array_equal(np.isnan(y), [True, False, True])
    np.testing.assert_array_equal(np.isnan(tape.play(X)), [True, False, True])
    with pytest.raises(ValueError, match="out of bounds"):
        tg.trace(lambda x: si.RegularGridInterpolator((T,), x)([[7.0]]), X)
    with pytest.raises(ValueError, match="outside"):
        tg.trace(lambda x: si.splev(7.0, si.splrep(T, x), ext=2), X)


@pytest.mark.parametrize("f", [
    lambda x: si.make_smoothing_spline(np.sort(x), T, lam=0.5)(AT), lambda x: si.make_smoothing_spline(T, T, lam=x[0])(AT),
    lambda x: si.UnivariateSpline(T, x)(AT), lambda x: si.make_smoothing_spline(T, x)(AT), lambda x: si.splrep(T, x, s=1.0)[1], lambda x: si.splint(0.0, 1.0, si.splrep(T, x), 1)[0],
    lambda x: si.CubicSpline(T, np.r_[x[:5], x[0]], bc_type="periodic").integrate(0.0, 7.0), lambda x: si.make_interp_spline(T, np.r_[x[:5], x[0]], bc_type="periodic")(AT),
    lambda x: si.PPoly(x.reshape(2, 3), [3.0, 2.0, 1.0, 0.0])(AT), lambda x: si.RegularGridInterpolator((T, T), np.outer(x, x), method="cubic")([[1.0, 1.0]]),
    lambda x: si.griddata(PLANE, x, (0.3, 0.4), method="cubic"), lambda x: si.griddata(PLANE, x, (x[0], 0.4)),
    lambda x: si.LinearNDInterpolator(PLANE, x)(0.3, 0.3), lambda x: si.RectBivariateSpline(T, T, np.outer(x, x), s=1.0)(1.0, 1.0),
])
def test_what_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(tg.TapeError) as err:
        tg.gradient(lambda x: number(f(x)), X)
    assert err.value.try_ and err.value.where is not None and err.value.where.file == __file__


@pytest.mark.skipif(np.lib.NumpyVersion(scipy.__version__) < "1.17.0", reason="their equations are compiled")
def test_radial_functions_have_a_gradient_by_their_own_centres() -> None:
    places, values = np.random.default_rng(3).normal(size=(8, 2)), np.arange(8.0)
    check_grads(lambda y: si.RBFInterpolator(y, values)(np.array([[0.1, 0.2]])), places)
