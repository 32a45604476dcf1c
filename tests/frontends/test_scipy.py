"""SciPy: what is written with NumPy's functions, distributions, what is refused, and tapegrad's gradients in SciPy's optimisers."""

from __future__ import annotations

import functools
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.integrate as si
import scipy.linalg as sl
import scipy.optimize as so
import scipy.signal as sg
import scipy.special as sp
import scipy.stats as ss
from scipy.interpolate import CubicSpline
from scipy.spatial.distance import directed_hausdorff

import tapegrad as tg
from tapegrad.testing import check_grads
from tapegrad.trace import lazy_frontends as imported
from tapegrad.trace.lazy_frontends import register_imported
from tapegrad.tree.flatten import leaves_of
from tests.cases.case import draw

register_imported()

NEW = np.lib.NumpyVersion(scipy.__version__) >= "1.17.0"  # stacks of matrices, and what inv may assume
A = draw(3, 3) * 0.3 + 2 * np.eye(3)
S, C = A @ A.T, A + 0.2j * draw(3, 3, seed=2)
B, TALL, U = draw(3, 2, seed=1), np.vstack([A, A + 1]), draw(3, seed=3)


def check(f: Callable[..., Any], *args: Any, order: int = 2) -> None:
    """Check the value, to rounding, the replay, and the gradient to the second order."""
    found, tape = tg.trace(f, *args)
    for a, b, c in zip(leaves_of(found), leaves_of(f(*args)), leaves_of(tape.check().play(*args)), strict=True):
        np.testing.assert_allclose(a, b, 1e-11, 1e-13)
        np.testing.assert_allclose(c, a, 1e-15)
        assert isinstance(a, type(b))
    check_grads(f, *args, order=order)


# -- scipy.linalg


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("structure", [None, "gen", "banded", "diagonal", "tridiagonal", "upper triangular", "lower triangular", "sym", "her", "pos"])
def test_solve_reads_what_it_assumes(structure: str | None, lower: bool) -> None:
    check(lambda a, b: sl.solve(a, b, assume_a=structure, lower=lower), S, U, order=1)


@pytest.mark.parametrize(("f", "args"), [
    (lambda a, b: sl.solve(a, b, transposed=True), (A, B)), *([(lambda a, b: sl.solve(a, b), (np.stack([A, S]), B))] if NEW else []),
    (lambda a, b: sl.solve(a, b, assume_a="her"), (C @ C.conj().T, B + 1j)),
    (lambda a: sl.inv(a), (A,)), *([(lambda a: sl.inv(a, assume_a="pos"), (S,))] if NEW else []), (lambda a: sl.det(a), (A,)), (lambda a: sl.logm(a), (S,)),
    (lambda a: sl.cholesky(a), (S,)), (lambda a: sl.cholesky(a, lower=True), (S,)),
    (lambda a, b: sl.cho_solve(sl.cho_factor(a), b), (S, U)), (lambda a, b: sl.cho_solve(sl.cho_factor(a, lower=True), b), (S, B)),
    *[(lambda a, b, trans=trans: sl.lu_solve(sl.lu_factor(a), b, trans), (C[::-1], B)) for trans in (0, 1, 2)],
    (lambda a: sl.norm(a), (A,)), (lambda a: sl.norm(a, 1), (A,)), (lambda a: sl.norm(a), (U,)), (lambda a: sl.norm(a, axis=0), (A,)),
    (lambda a: sl.svd(a)[1], (A,)), (lambda a: np.abs(sl.svd(a, full_matrices=False)[0]), (TALL,)), (lambda a: sl.svdvals(a), (TALL,)),
    (lambda a: np.abs(sl.eigh(a)[1]) * sl.eigh(a)[0], (S,)), (lambda a: sl.eigvalsh(a, lower=False), (S,)), (lambda a: sl.eigh(a, eigvals_only=True), (S,)),
    (lambda a: sl.qr(a), (A,)), (lambda a: sl.qr(a, mode="economic"), (TALL,)), (lambda a: sl.qr(a, mode="r")[0], (A,)),
    (lambda a: sl.pinv(a), (TALL,)), (lambda a, b: sl.lstsq(a, b)[0], (TALL, draw(6))), (lambda a, q: sl.solve_continuous_lyapunov(a, q), (A, S)),
])
def test_what_numpy_has_too(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check(f, *args)


@pytest.mark.quick
def test_errors_are_scipys() -> None:
    for f, x, error in [(lambda a: sl.solve(a, U), np.ones((2, 3)), np.linalg.LinAlgError), (lambda a: sl.inv(a), np.zeros((2, 2)), np.linalg.LinAlgError),
                        (lambda a: sl.cholesky(a), -np.eye(2), np.linalg.LinAlgError), (lambda a: sl.expm(a), np.ones((2, 3)), ValueError),
                        (lambda a: sl.solve(a, U, assume_a="round"), A, ValueError), (lambda a: sp.multigammaln(a, 3), 0.5, ValueError)]:
        with pytest.raises(error):
            tg.grad(lambda a, f=f: np.sum(f(a)), x)


# -- scipy.stats

HALF, REAL, UNIT = np.array([0.3, 1.2, 2.5]), np.array([-1.3, 0.3, 0.6, 2.5]), np.array([0.2, 0.5, 0.9])
DISTRIBUTIONS = [
    ("norm", (), REAL), ("expon", (), HALF), ("gamma", (2.5,), HALF), ("beta", (2.0, 3.0), UNIT), ("t", (3.5,), REAL), ("laplace", (), REAL),
    ("logistic", (), REAL), ("cauchy", (), REAL), ("lognorm", (0.7,), HALF), ("weibull_min", (1.5,), HALF), ("uniform", (), UNIT), ("halfnorm", (), HALF),
    ("invgamma", (2.5,), HALF), ("chi2", (3.5,), HALF), ("pareto", (2.5,), HALF + 1), ("gumbel_r", (), REAL), ("f", (3.0, 4.0), HALF), ("rayleigh", (), HALF),
    ("vonmises", (1.5,), REAL), ("truncnorm", (-1.0, 2.0), UNIT), ("genextreme", (0.3,), UNIT), ("invgauss", (1.5,), HALF),
]


@pytest.mark.parametrize(("name", "shapes", "x"), DISTRIBUTIONS, ids=[row[0] for row in DISTRIBUTIONS])
def test_densities_by_the_point_and_every_parameter(name: str, shapes: tuple[float, ...], x: Any) -> None:
    dist = getattr(ss, name)
    check(lambda x, *args, d=dist: d.logpdf(x, *args), x, *shapes, 0.01, 1.1)
    check(lambda x, *args, d=dist: d.pdf(x, *args[:-2], loc=args[-2], scale=args[-1]), x, *shapes, 0.01, 1.1)
    if name != "genextreme":  # its formula writes into arrays
        check(lambda x, *args, d=dist: d.logpdf(x, *args), x.tolist()[1], *shapes)


@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize(("name", "shapes", "x"), DISTRIBUTIONS[:14], ids=[row[0] for row in DISTRIBUTIONS[:14]])
def test_distribution_functions_by_the_point(method: str, name: str, shapes: tuple[float, ...], x: Any) -> None:
    dist = getattr(ss, name)
    check(lambda x, loc, scale, d=dist, s=shapes: getattr(d, method)(x, *s, loc, scale), x, 0.01, 1.1)


@pytest.mark.parametrize(("name", "shapes"), [("norm", ()), ("expon", ()), ("gamma", (2.5,)), ("t", (3.5,)), ("laplace", ()), ("logistic", ()), ("weibull_min", (1.5,))])
def test_quantiles(name: str, shapes: tuple[float, ...]) -> None:
    dist = getattr(ss, name)
    for f in (dist.ppf, dist.isf):
        check(lambda q, loc, scale, f=f, s=shapes: f(q, *s, loc, scale), np.array([0.2, 0.45, 0.9]), 0.3, 1.1)
        q = np.array([0.0, 1.0, -0.1, 1.1, np.nan, 0.3])
        np.testing.assert_array_equal(tg.trace(lambda q, f=f, s=shapes: f(q, *s), q)[0], f(q, *shapes))


@pytest.mark.parametrize(("name", "shapes"), [("poisson", (2.5,)), ("bernoulli", (0.3,)), ("geom", (0.3,)), ("nbinom", (3.0, 0.4))])
def test_mass_functions_by_their_parameters(name: str, shapes: tuple[float, ...]) -> None:
    k = np.array([-1, 0, 1, 1, 2])
    dist = getattr(ss, name)
    for f in (dist.logpmf, dist.pmf):
        found, expected = tg.trace(lambda *args, f=f: f(k, *args), *shapes)[0], f(k, *shapes)
        np.testing.assert_allclose(found, expected, 1e-12)
    last = shapes[-1]
    check(lambda p, f=dist.pmf, s=shapes[:-1]: f(k, *s, p), last)
    check(lambda p, f=dist.logpmf, s=shapes[:-1]: f(np.array([1, 1]), *s, p), last)


def test_outside_the_support() -> None:
    x = np.array([-1.0, 0.5, np.nan, 2.0])
    f = functools.partial(ss.expon.logpdf, scale=2.0)
    value, tape = tg.trace(lambda x: ss.expon.logpdf(x, scale=2.0), x)
    np.testing.assert_array_equal(value, f(x))
    np.testing.assert_array_equal(tape.play(x[::-1].copy()), f(x[::-1]))  # what is inside is decided by the replay
    np.testing.assert_array_equal(tg.gradient(lambda x: ss.gamma.pdf(x, 1.5)[[0, 1]].sum(), x)[0][[0, 3]], [0.0, 0.0])
    value, tape = tg.trace(lambda x, a: ss.gamma.logpdf(x, a), 1.5, 2.0)
    assert np.isnan(tape.play(1.5, -2.0)) and np.isnan(ss.gamma.logpdf(1.5, -2.0))
    assert tape.play(-1.5, 2.0) == ss.gamma.logpdf(-1.5, 2.0) == -np.inf


def test_a_frozen_distribution_holds_traced_parameters() -> None:
    check(lambda x, mu, sigma: ss.norm(loc=mu, scale=sigma).logpdf(x), REAL, 0.3, 1.2)


def test_the_multivariate_normal_of_a_covariance_that_may_be_singular() -> None:
    x, cov = np.array([0.4, -0.3]), np.array([[2.0, 0.3], [0.3, 1.0]])

    def f(x: Any, cov: Any, allow: bool) -> Any:
        return ss.multivariate_normal.logpdf(x, None, cov, allow)
    for a, b in zip(tg.gradient(f, x, cov, True), tg.gradient(f, x, cov, False)):
        assert a is b or np.allclose(a, b)
    step = tg.value_and_grad(lambda s: ss.multivariate_normal.logpdf(x, np.zeros(2), s * cov, True), argnums=0, warmup=1)
    for s in (1.0, 1.1, 1.2):
        value, slope = step(s)
        assert np.isclose(value, f(x, s * cov, True)) and np.isclose(slope, (f(x, (s + 1e-6) * cov, True) - f(x, (s - 1e-6) * cov, True)) / 2e-6)
    one = x[:1]  # as far from either mean
    assert np.isclose(tg.trace(lambda x: ss.multivariate_normal.logpdf(x, None, cov), one)[0], ss.multivariate_normal.logpdf(one, None, cov))
    np.testing.assert_allclose(tg.trace(f, x, np.ones((2, 2)), True)[0], f(x, np.ones((2, 2)), True))


def test_fftpack() -> None:
    import scipy.fftpack as old
    x = np.linspace(0.2, 1.5, 6)
    for name in ("dct", "idct", "dst", "idst"):
        fn = getattr(old, name)
        for type, norm in ((2, "ortho"), (3, None), (1, None), (4, "ortho")):
            found = tg.trace(lambda x, fn=fn, type=type, norm=norm: fn(x, type, norm=norm), x)[0]
            assert np.allclose(found, fn(x, type, norm=norm), rtol=1e-14)
        found = tg.gradient(lambda x, fn=fn: np.sum(fn(x, 2, 8) ** 2), x)[0]
        assert np.allclose(found, [np.sum(2 * fn(x, 2, 8) * fn(e, 2, 8)) for e in np.eye(6)])


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fftn", "ifftn", "fft2", "ifft2", "dctn", "idctn", "dstn", "idstn"])
def test_fftpack_transforms_without_norm(name: str) -> None:
    import scipy.fftpack as old
    fn, x = getattr(old, name), draw(4, 5)
    calls = [lambda x: fn(x), lambda x: fn(np.float32(1) * x)]
    if name.endswith("n"):
        calls += [lambda x: fn(x, shape=(3,), axes=(0,)), lambda x: fn(x, shape=(6, 4))]
    elif name.endswith("2"):
        calls += [lambda x: fn(x, (3, 8)), lambda x: fn(x, axes=(1, 0))]
    else:
        calls += [lambda x: fn(x, 7), lambda x: fn(x, n=4, axis=0), lambda x: fn(x[:, :4]), lambda x: fn(x, 3, 0, True), lambda x: fn(x[0]), lambda x: fn(x, 1)]
    if not name.endswith(("rfft", "tn")):
        calls += [lambda x: fn(x * (1 + 2j))]
    for f in calls:
        np.testing.assert_array_equal(tg.trace(f, x)[0], f(x))
        weights = np.cos(np.arange(f(x).size)).reshape(f(x).shape)
        value = lambda x, f=f, weights=weights: np.sum(np.abs(f(x)) ** 2 * weights)  # noqa: E731
        found = tg.gradient(value, x)[0]
        e = 1e-5 * np.eye(x.size).reshape(-1, *x.shape)
        np.testing.assert_allclose(found.ravel(), [(value(x + d) - value(x - d)) / 2e-5 for d in e], rtol=1e-5, atol=1e-5)


def test_the_multivariate_normal() -> None:
    f = ss.multivariate_normal
    check(lambda x, mean, cov: f.logpdf(x, mean, (cov + cov.T) / 2), draw(4, 3), U, S)
    check(lambda x, cov: f.pdf(x, cov=(cov + cov.T) / 2), U, S)
    check(lambda x, mean, cov: f.logpdf(x, mean, cov), draw(4, 3), U, 1.5)
    check(lambda x, mean, cov: f.logpdf(x, mean, cov), U, 0.3, 1.5)


def test_a_formula_that_cannot_be_recorded_raises() -> None:
    with pytest.raises(tg.TapeError):
        tg.grad(lambda x: ss.skewnorm.cdf(x, 0.4), 0.5)
    with pytest.raises(tg.MissingRule, match="'v'"):
        tg.grad(lambda v: sp.jv(v, 1.5), 0.5)
    by_shape = (ss.gamma.cdf(1.5, 2.5 + 1e-6) - ss.gamma.cdf(1.5, 2.5 - 1e-6)) / 2e-6
    assert tg.gradient(ss.gamma.cdf, 1.5, 2.5)[1] == pytest.approx(by_shape, rel=1e-7)


# -- Riccati's equations

STATE, COST = draw(3, 3, seed=4), draw(3, 3, seed=5)


@pytest.mark.parametrize("solve", [sl.solve_continuous_are, sl.solve_discrete_are])
def test_riccati_equations(solve: Callable[..., Any]) -> None:
    def hermitian(x: Any) -> Any:
        return (x + x.conj().T) / 2
    q, r, e, s = COST @ COST.T + np.eye(3), np.array([[2.0, 0.3], [0.3, 1.0]]), np.eye(3) + 0.1 * COST, 0.1 * B
    check(lambda a, b, q, r: solve(a, b, hermitian(q), hermitian(r)), STATE, B, q, r)
    check(lambda a, b, q, r, s: solve(a, b, hermitian(q), hermitian(r), None, s), STATE, B, q, r, s, order=1)
    check(lambda a, b, q, r, e, s: solve(a, b, hermitian(q), hermitian(r), e, s), STATE, B, q, r, e, s, order=1)
    spread = [x + 0.1j * draw(*x.shape, seed=k) for k, x in enumerate((STATE, B, q, r, e, s))]
    check(lambda a, b, q, r, e, s: np.abs(solve(a, b, hermitian(q), hermitian(r), e, s)) ** 2, *spread, order=1)


def test_functions_by_schurs_form() -> None:
    signed = np.array([[3.0, 1.0, 0.2], [0.4, 2.0, 0.3], [0.1, 0.5, -1.5]])
    check(sl.signm, signed, order=1)
    check(lambda a, t: sl.fractional_matrix_power(a, t), S, 0.7)
    check(lambda a: np.abs(sl.fractional_matrix_power(a, 0.3)), signed, order=1)
    with pytest.raises(tg.UnknownFunction, match="signm with disp"):
        tg.grad(lambda a: sl.signm(a, disp=False)[0].sum(), signed)


# -- what is refused


@pytest.mark.parametrize("f", [
    lambda x: si.solve_bvp(lambda t, y: -x * y, lambda a, b: a, np.linspace(0, 1, 5), np.ones((1, 5)), S=np.zeros((1, 1))).y.sum(),
    lambda x: so.linprog([x, 2.0], A_eq=[[1.0, 1.0]], b_eq=[x]).x[0], lambda x: so.linprog([x, 1.0], integrality=1).x[0],
    lambda x: sg.fftconvolve(np.ones(2) * x, np.ones(2), axes=0).sum(), lambda x: sl.eigh(A, b=x * S)[0].sum(), lambda x: sl.pinv(x * A, atol=1.0).sum(),
    lambda x: sg.convolve2d(A * x, A, boundary="wrap").sum(), lambda x: sl.qr(x * A, pivoting=True)[0].sum(), lambda x: sl.block_diag(A[None] * x).sum(),
])
def test_refused_with_advice(f: Callable[..., Any]) -> None:
    with pytest.raises(tg.UnknownFunction) as caught:
        tg.grad(f, 2.0)
    assert caught.value.try_ and caught.value.where is not None and caught.value.where.file == __file__


def test_the_derivative_by_an_order_is_refused() -> None:
    with pytest.raises(tg.MissingRule, match="jv has no derivative by its argument 'v'"):
        tg.grad(sp.jv, 1.5, 2.0)
    value, (_, dx) = tg.grad(lambda x, v: sp.jv(v, x), 2.0, v=1.5)
    assert (value, dx) == (sp.jv(1.5, 2.0), pytest.approx(sp.jvp(1.5, 2.0)))
    v = 1.5
    assert tg.gradient(lambda x: sp.jv(v, x), 2.0) == (pytest.approx(sp.jvp(1.5, 2.0)),)


# -- from outside


def test_minimize_takes_value_and_gradient() -> None:
    def fun(x: Any) -> Any:
        value, (_, dx) = tg.grad(lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), x)
        return value, dx
    found = so.minimize(fun, np.zeros(4), jac=True)
    assert found.success
    np.testing.assert_allclose(found.x, np.ones(4), 1e-4)


def test_scipy_is_imported_by_the_user_alone() -> None:
    code = ("import sys, tapegrad as tg; from tapegrad.trace import lazy_frontends as f; f.register_imported(); assert 'scipy' not in sys.modules; "
            "import math; print(tg.gradient(lambda x: math.erf(x), 0.0)); assert 'scipy' not in sys.modules; "
            "import scipy.special as sp; f.register_imported(); f.register_imported(); assert 'scipy.signal' not in sys.modules; print(tg.gradient(sp.expit, 0.0))")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "(1.1283791670955126,)\n(0.25,)\n"


def test_a_module_that_a_known_function_imports_finds_numpy_as_it_is() -> None:
    code = ("import numpy as np, tapegrad as tg, scipy.linalg as sl; f = sl.fractional_matrix_power; "  # imports compiled code
            "print(np.round(tg.grad(lambda x: np.sum(f(x, 0.5)), 4 * np.eye(2))[1][1], 9).tolist())")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[[0.25, 0.25], [0.25, 0.25]]\n"


def test_a_version_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported, "_WAITING", {"scipy.special": ("frontends.scipy.none",)})
    monkeypatch.setattr(imported, "_settled", [None])
    with pytest.warns(UserWarning, match="this version of scipy.special"):
        assert tg.gradient(lambda x: x * x, 3.0) == (6.0,)
    assert tg.gradient(lambda x: x * x, 3.0) == (6.0,)


def test_the_frame_of_a_replaced_closure_can_be_looked_at() -> None:
    with pytest.raises(np.linalg.LinAlgError) as caught:  # solve_triangular is one
        tg.grad(lambda a: sl.solve_triangular(a, U).sum(), np.zeros((3, 3)))
    traceback.TracebackException.from_exception(caught.value, capture_locals=True)


@pytest.mark.parametrize("f", [
    lambda x: [sl.norm(x), sl.norm(x, 1), sl.norm(np.outer(x, x), 1), sl.norm(np.outer(x, x))], lambda x: so.nnls(np.eye(3), x)[1], lambda x: so.linprog(-x, A_ub=np.ones((1, 3)), b_ub=x[:1]).fun,
    lambda x: sl.lstsq(np.eye(3)[:, :2], x)[1], lambda x: sl.lstsq(np.eye(3)[:, :2], x, lapack_driver="gelsy")[1], lambda x: sl.lstsq(np.outer(x, x), x)[1], lambda x: directed_hausdorff(np.outer(x, x), np.eye(3))[0],
    lambda x: CubicSpline(np.arange(3.0), x).integrate(0, 1)])
def test_numbers_are_of_the_types_that_scipy_returns(f: Callable[..., Any]) -> None:
    x = np.array([1.0, 2.0, 3.0])

    def kinds(found: Any) -> Any:
        return [(type(part), np.shape(part)) for part in (found if type(found) is list else [found])]
    fast = tg.compile(f)
    assert kinds(tg.trace(f, x)[0]) == kinds(f(x)) == [kinds(fast(x)) for _ in range(3)][2]
    np.testing.assert_allclose(tg.trace(f, x)[0], f(x))


@pytest.mark.parametrize("f", [
    lambda r, _: "hess_inv" in r, lambda r, _: len(r), lambda r, _: r.get("nfev", 1.0), lambda r, _: r["nit"], lambda r, _: [*r], lambda r, _: dict(r), lambda r, _: r.keys(), lambda r, _: {**r}, lambda r, _: r | {},
    lambda r, _: r.items(), lambda _, info: len(info), lambda _, info: info.get("nfev", 1), lambda _, info: "qtf" in info, lambda _, info: info["r"], lambda _, info: sorted(info), lambda r, _: hasattr(r, "nfev")])
def test_facts_about_a_solvers_steps_are_refused(f: Callable[..., Any]) -> None:
    def program(x: Any) -> Any:
        info = so.fsolve(lambda y: y ** 3 - x, np.ones(3), full_output=True)[1]
        f(so.minimize(lambda p: ((p - x) ** 2).sum(), np.zeros(3)), info)
        return x.sum()
    with pytest.raises(tg.errors.UnknownFunction, match="internal steps"):
        tg.grad(program, np.array([1.0, 2.0, 3.0]))


def test_facts_about_a_solution_are_read() -> None:
    def program(x: Any) -> Any:
        r = so.minimize(lambda p: ((p - x) ** 2).sum(), np.zeros(3))
        info = so.fsolve(lambda y: y ** 3 - x, np.ones(3), full_output=True)[1]
        assert "x" in r and "fun" in repr(r)
        return r["x"].sum() + r.get("x")[0] * r.x[1] + info["fvec"].sum() + (r.success is True)
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(tg.grad(program, x)[1][1], [3.0, 2.0, 1.0], atol=1e-6)
