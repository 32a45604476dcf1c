"""Libraries' Python code, traced like the program's: SciPy's own functions, NumPy's that no protocol reaches, the standard library's."""

from __future__ import annotations

import statistics
import sys
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
import scipy.interpolate as sint
import scipy.linalg as sl
import scipy.optimize as so
import scipy.signal as sg
import scipy.special as sp
import scipy.stats as ss

import tapegrad as tg

try:
    from scipy._external.array_api_compat.common import _helpers as helpers
except ImportError:  # before SciPy 1.18
    from scipy._lib.array_api_compat.common import _helpers as helpers

X = np.array([0.4, 1.3, -0.7, 2.1, 0.9])
Y = np.array([1.1, 0.3, 0.8, -0.5, 1.7])
SHARES = np.array([0.1, 0.3, 0.2, 0.15, 0.25])
M = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.8]])
U = X[:3]
P = X ** 2 + 1


def total(x: Any) -> Any:
    return (x * x).sum()


SCIPY: dict[str, tuple[Any, Any]] = {
    "rosen": (so.rosen, X), "rosen_der": (lambda x: total(so.rosen_der(x)), X), "rosen_hess": (lambda x: total(so.rosen_hess(x)), X),
    "rosen_hess_prod": (lambda x: total(so.rosen_hess_prod(x, Y)), X), "zscore": (lambda x: (ss.zscore(x) ** 3).sum(), X), "skew": (ss.skew, X),
    "kurtosis": (ss.kurtosis, X), "moment": (lambda x: ss.moment(x, 3), X), "gmean": (ss.gmean, P), "hmean": (ss.hmean, P), "pmean": (lambda x: ss.pmean(x, 3), P),
    "variation": (ss.variation, X), "sem": (ss.sem, X), "pearsonr": (lambda x: ss.pearsonr(x, Y)[0], X), "linregress": (lambda x: ss.linregress(x, Y).slope, X),
    "ttest_ind": (lambda x: ss.ttest_ind(x, Y).statistic, X), "ttest_1samp": (lambda x: ss.ttest_1samp(x, 0.0).statistic, X),
    "ttest_rel": (lambda x: ss.ttest_rel(x, Y).statistic, X),
    "describe": (lambda x: ss.describe(x).variance, X), "entropy": (ss.entropy, P), "relative entropy": (lambda x: ss.entropy(x, Y ** 2), P), "iqr": (ss.iqr, X),
    "trim_mean": (lambda x: ss.trim_mean(x, 0.2), X), "tmean": (ss.tmean, X), "tvar": (ss.tvar, X), "median_abs_deviation": (ss.median_abs_deviation, X),
    "zmap": (lambda x: total(ss.zmap(x, Y)), X), "gstd": (ss.gstd, P), "gzscore": (lambda x: (ss.gzscore(x) ** 3).sum(), P),
    "boxcox_llf": (lambda x: ss.boxcox_llf(0.3, x), P), "yeojohnson_llf": (lambda x: ss.yeojohnson_llf(0.3, x), X),
    "power_divergence": (lambda x: ss.power_divergence(x / np.sum(x), SHARES).statistic, P), "kstat": (lambda x: ss.kstat(x, 3), X), "circmean": (ss.circmean, X),
    "circvar": (ss.circvar, X), "lmoment": (lambda x: total(ss.lmoment(x)), X), "gaussian_kde": (lambda x: ss.gaussian_kde(x).covariance[0, 0], X),
    "multivariate_normal": (lambda m: ss.multivariate_normal.logpdf(U, m, M), U), "frozen multivariate_normal": (lambda m: ss.multivariate_normal(m, M).logpdf(U), U),
    "multivariate_t": (lambda m: ss.multivariate_t.logpdf(U, m, M, 4), U), "its shape": (lambda c: ss.multivariate_t.logpdf(U, None, c @ c.T, 4), M),
    "dirichlet": (lambda a: ss.dirichlet.logpdf(SHARES, a), P), "dirichlet of x": (lambda a: ss.dirichlet.logpdf(a / np.sum(a), P), SHARES),
    "dirichlet.entropy": (ss.dirichlet.entropy, P), "wishart": (lambda m: ss.wishart.logpdf(m @ m.T, 5, M), M),
    "matrix_normal": (lambda m: ss.matrix_normal.logpdf(m, np.zeros((3, 3)), M, M), M), "poisson": (lambda m: ss.poisson.logpmf(3, m), 1.7),
    "norm": (lambda m: ss.norm.logpdf(X, m, m * 2).sum(), 1.7), "gamma": (lambda m: ss.gamma.logpdf(X ** 2, m, scale=m).sum(), 1.7),
    "nnlf": (lambda m: ss.norm.nnlf((m, 2.0), X), 1.7), "frozen mean": (lambda m: ss.norm(m, 2.0).mean(), 1.7), "frozen var": (lambda m: ss.gamma(m).var(), 1.7),
    "frozen entropy": (lambda m: ss.norm(0, m).entropy(), 1.7), "companion": (lambda x: total(sl.companion(x)), X), "leslie": (lambda x: total(sl.leslie(x, Y[1:])), X),
    "fiedler": (lambda x: total(sl.fiedler(x)), X), "convolution_matrix": (lambda x: total(sl.convolution_matrix(x, 3)), X), "polar": (lambda x: sl.polar(x)[0][0, 1], M),
    "khatri_rao": (lambda x: total(sl.khatri_rao(x, M)), M), "solve_discrete_lyapunov": (lambda x: sl.solve_discrete_lyapunov(x * 0.2, M).sum(), M),
    "diagsvd": (lambda x: total(sl.diagsvd(x, 5, 6)), X), "orth": (lambda x: sl.orth(x)[0, 0] ** 2, M), "sinc": (sp.sinc, 0.3), "perm": (lambda x: sp.perm(x, 3), 5.3),
    "jvp": (lambda x: sp.jvp(1, x), 1.3), "fftconvolve": (lambda x: total(sg.fftconvolve(x, Y)), X), "oaconvolve": (lambda x: total(sg.oaconvolve(x, Y)), X),
    "correlate": (lambda x: total(sg.correlate(x, Y)), X), "detrend": (lambda x: total(sg.detrend(x)), X), "hilbert": (lambda x: np.abs(sg.hilbert(x)).sum(), X),
    "chirp": (lambda t: sg.chirp(t, 1.0, 2.0, 3.0), 0.1), "gaussian": (lambda s: total(sg.windows.gaussian(7, s)), 1.3), "kaiser": (lambda s: total(sg.windows.kaiser(7, s)), 1.3),
    "tukey": (lambda s: total(sg.windows.tukey(7, s)), 0.3), "general_cosine": (lambda s: total(sg.windows.general_cosine(7, [s, 0.2, 0.1])), 0.6),
    "general_hamming": (lambda s: total(sg.windows.general_hamming(7, s)), 0.6), "resample": (lambda x: total(sg.resample(x, 8)), X),
    "savgol_filter": (lambda x: total(sg.savgol_filter(x, 5, 2)), X), "wiener": (lambda x: total(sg.wiener(x)), X), "freqz": (lambda x: np.abs(sg.freqz(x, worN=4)[1]).sum(), X),
    "zpk2tf": (lambda x: total(sg.zpk2tf(x, Y, 2.0)[0]), X), "bilinear": (lambda x: total(sg.bilinear(x[:3], Y[:3])[0]), X),
    "cumulative_simpson": (lambda x: total(si.cumulative_simpson(x, dx=0.3)), X), "romb": (lambda x: si.romb(x, dx=0.3), X),
    "interp1d": (lambda y: sint.interp1d(np.arange(5.0), y)(2.3), X), "barycentric": (lambda y: sint.barycentric_interpolate(np.arange(5.0), y, 2.3), X),
    "krogh": (lambda y: sint.krogh_interpolate(np.arange(5.0), y, 2.3), X), "lagrange": (lambda y: sint.lagrange(np.arange(5.0), y)(2.3), X),
}


def reshaped(x: Any) -> Any:
    y = x * 1.0
    y.shape = (5, 1)
    y[0] = x[1]
    return (y * y.T).sum()


def of_a_view(x: Any) -> Any:
    y = np.zeros(6)
    z = y[1:]
    z.shape = (5, 1)
    z[:, 0] = x * x
    return (y * np.arange(6.0)).sum()


def multiplied_at(x: Any) -> Any:
    y = x * 1.0
    np.multiply.at(y, [0, 0, 1, 3], x[:4])
    np.maximum.at(y, np.array([[2, 2], [4, 4]]), x[0] * 2)
    np.negative.at(y, [1, 1, 2])
    return (y * Y).sum()


def required(x: Any) -> Any:
    y = np.require(x[::-1], float, ["C", "W", "O"])
    y[0] = 1.0
    return total(y) + x.sum()


def checked(x: Any) -> Any:
    np.testing.assert_allclose(x, x + 1e-12)
    np.testing.assert_array_equal(x.shape, (5,))
    np.testing.assert_equal(x, x)
    np.testing.assert_array_less(x, x + 1)
    return total(x)


def overlapping(x: Any) -> Any:
    y = np.zeros(5)
    return total(x) * (2 if np.may_share_memory(y, y[1:]) else 3) * (2 if np.shares_memory(x, x + 1) else 3)


def indices(n: int) -> Any:
    def f(x: Any) -> Any:
        i, j = np.indices((n, n))
        return (x[0] * i + x[1] * j * x[2]).sum()
    return f


def pair(x: Any) -> list[Any]:
    return [x, 2 * x, 3.0]


def on_a_grid(x: Any) -> Any:
    y = np.mgrid[0:2:1.0, 0:3:1.0][0]
    a, b = np.ogrid[0:2, 0:3]
    y[0, 0] = x[0]
    return (y * x[1] + a * x[2] * b).sum()


def by_the_standard(x: Any) -> Any:
    xp = x.__array_namespace__()
    z = xp.zeros(5)
    z[0] = x[1]
    return xp.sum(xp.stack([x, xp.asarray(Y), z]) ** 2)


def by_the_compatible(x: Any) -> Any:
    xp = helpers.array_namespace(x, Y)
    return xp.sum(xp.concat([x, xp.linspace(0.0, 1.0, 4), xp.zeros_like(x), xp.ones(2) * x[0]]) * 2)


OTHERS: dict[str, tuple[Any, Any]] = {
    "mgrid": (on_a_grid, X), "the array API": (by_the_standard, X), "array_api_compat": (by_the_compatible, X), "x.shape = ...": (reshaped, X), "of a view": (of_a_view, X), "ufunc.at": (multiplied_at, X), "require": (required, X), "testing": (checked, X),
    "may_share_memory": (overlapping, X), "indices": (indices(3), X), "add.reduceat": (lambda x: total(np.add.reduceat(x * x, [0, 3, 1, 1])), X),
    "maximum.reduceat": (lambda x: total(np.maximum.reduceat(np.outer(x, Y), [0, 2], axis=1)), X), "copy if needed": (lambda x: total(np.array(x, copy=np._CopyMode.IF_NEEDED)), X),  # type: ignore[attr-defined]
    "fromiter": (lambda x: np.fromiter((v * v for v in x), float).sum(), X), "fromiter of few": (lambda x: np.fromiter((v * v for v in x), float, 2).sum(), X),
    "emath": (lambda x: np.abs(np.emath.sqrt(x)).sum(), X), "real_if_close": (lambda x: total(np.real_if_close(x + 0j)), X), "sqrt of a list": (lambda x: np.sqrt([x, 2 * x]).sum(), 0.7),
    "add of a list": (lambda x: np.add([x, 2 * x], 1.0).prod(), 0.7), "two lists": (lambda x: np.multiply([x, 1.0], (x, x)).sum(), 0.7), "reduce of a list": (lambda x: np.add.reduce([x, x * x]), 0.7),
    "maximum of a list": (lambda x: np.maximum([x, 2 * x], 1.0).sum(), 0.7), "Polynomial": (lambda x: np.polynomial.Polynomial([1.0, x, 2.0])(x), 0.7),
    "Chebyshev": (lambda x: np.polynomial.Chebyshev([1.0, 2.0, x]).deriv()(x), 0.7), "mean": (lambda x: statistics.mean(pair(x)), 0.7), "fmean": (lambda x: statistics.fmean(pair(x), *([[1.0, 2.0, x]] if sys.version_info >= (3, 11) else [])), 0.7),
    "stdev": (lambda x: statistics.stdev(pair(x)), 0.7), "pstdev": (lambda x: statistics.pstdev(pair(x)), 0.7), "variance": (lambda x: statistics.variance(pair(x), x), 0.7),
    "pvariance": (lambda x: statistics.pvariance(x), X), "median": (lambda x: statistics.median(pair(x)), 0.7), "geometric_mean": (lambda x: statistics.geometric_mean(pair(x)), 0.7),
    "harmonic_mean": (lambda x: statistics.harmonic_mean(pair(x)), 0.7), "covariance": (lambda x: statistics.covariance(pair(x), [1.0, 2.0, x]), 0.7),
    "correlation": (lambda x: statistics.correlation(pair(x), [1.0, 2.5, x]), 0.7), "linear_regression": (lambda x: statistics.linear_regression(pair(x), [1.0, 2.5, x]).slope, 0.7),
    "an index of a global": (lambda x: (Y[np.floor(x).astype(int)] * x).sum() + Y[np.argsort(x)][0] * x[0], X), "a mask of a global": (lambda x: Y[x > 1].sum() * x.sum(), X),
    "a count": (lambda x: float(np.sum(x > 1)) * x.sum() * int(np.count_nonzero(x > 0)), X), "a copy of a global": (lambda x: written(np.array(Y), x[0]) + written(np.copy(Y), x[1]), X),
}


def written(y: Any, x: Any) -> Any:
    y[0] = x
    return total(y)


def slopes(f: Any, x: Any) -> Any:
    """Return the central differences by each number of an array, or by one number."""
    x = np.asarray(x, float)
    found = np.zeros(x.shape)
    for at in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[at] = 1e-6
        high, low = (np.asarray(f(y if y.shape else float(y))).item() for y in (x + step, x - step))
        found[at] = (high - low) / 2e-6
    return found


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")  # some formulas of SciPy choose by plain numbers
@pytest.mark.filterwarnings("ignore:`lagrange` is deprecated:DeprecationWarning", "ignore:Setting the shape:DeprecationWarning")  # SciPy 1.18, NumPy 2.5
@pytest.mark.parametrize("name", [*SCIPY, *OTHERS])
def test_code_of_libraries(name: str) -> None:
    f, x = (SCIPY | OTHERS)[name]
    value, (_, dx) = tg.grad(f, x)
    np.testing.assert_allclose(value, f(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dx, slopes(f, x), rtol=2e-4, atol=1e-5)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in range(4):
        y = x + 0.01 * k
        value, (_, dx) = step(y)
        np.testing.assert_allclose(value, f(y), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(dx, tg.grad(f, y)[1][1], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ["zscore", "kurtosis", "gmean", "rosen", "fiedler", "detrend", "entropy", "companion"])
def test_single_precision_stays(name: str) -> None:
    f, x = SCIPY[name]
    value, (_, dx) = tg.grad(f, x.astype(np.float32))
    assert dx.dtype == np.float32 and getattr(value, "dtype", None) == getattr(f(x.astype(np.float32)), "dtype", None)
    np.testing.assert_allclose(dx, tg.grad(f, x)[1][1], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("dtype", [float, np.float64, np.float32])
def test_statistics_are_of_the_type_of_their_numbers(dtype: Any) -> None:
    numbers = [dtype(v) for v in (0.3, 1.2, 2.1, 0.7, 1.5)]
    for fn in (statistics.mean, statistics.fmean, statistics.variance, statistics.stdev, statistics.pvariance, statistics.harmonic_mean, statistics.median, statistics.geometric_mean,
               lambda v: statistics.linear_regression(v, v).slope, lambda v: statistics.covariance(v, v)):
        def f(*v: Any, fn: Any = fn) -> Any:
            return fn([abs(part) for part in v])
        want, step = f(*numbers), tg.compile(f, warmup=1)
        for got in (tg.trace(f, *numbers)[0], step(*numbers), step(*numbers)):
            assert type(got) is type(want)
            assert got == pytest.approx(want, rel=1e-15 if dtype is not np.float32 or type(want) is float else 1e-7)


def test_errors_are_the_librarys() -> None:
    for f in (lambda x: statistics.stdev([x]), lambda x: statistics.geometric_mean([-x])):
        with pytest.raises(statistics.StatisticsError):
            tg.grad(f, 1.0)
    with pytest.raises(ValueError, match="at least 2"):
        tg.grad(lambda x: ss.pearsonr(x[:1], x[:1])[0], X)
    with pytest.raises(IndexError):
        tg.grad(lambda x: np.add.reduceat(x, [7]).sum(), X)
    with pytest.raises(AttributeError, match="Incompatible shape"):
        tg.grad(transposed_in_place, M)
    with pytest.raises(tg.errors.UnknownFunction, match="of an argument"):
        tg.grad(reshaped_argument, X)
    with pytest.raises(tg.TapeError):
        tg.grad(lambda x: sl.schur(x)[0][0, 0], M)


def transposed_in_place(x: Any) -> Any:
    y = (x * 1.0).T
    y.shape = (9,)
    return y.sum()


def reshaped_argument(x: Any) -> Any:
    x.shape = (5, 1)
    return x.sum()


def solved_by_parts(a: Any, b: Any) -> Any:
    """Solve as libraries do that take NumPy's own parts for it."""
    from numpy.linalg import _linalg, _umath_linalg
    a, _ = _linalg._makearray(a)
    b, wrap = _linalg._makearray(b)
    kind, result = _linalg._commonType(a, b)
    solve = _umath_linalg.solve1 if b.ndim == 1 else _umath_linalg.solve
    with np.errstate(call=_linalg._raise_linalgerror_singular, invalid="call", over="ignore", divide="ignore", under="ignore"):
        x = solve(a, b, signature="DD->D" if _linalg.isComplexType(kind) else "dd->d")
    return wrap(x.astype(result, copy=False))


@pytest.mark.parametrize("dtype", [float, np.float32, complex])
@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_parts_of_numpys_solutions(shape: tuple[int, ...], dtype: Any) -> None:
    draw = np.random.default_rng(0).normal
    a, b = (draw(size=(3, 3)) + 3 * np.eye(3)).astype(dtype), draw(size=shape).astype(dtype)
    expected = tg.grad(lambda a, b: np.sum(abs(np.linalg.solve(a, b)) ** 2), a, b)[1][1:]
    step = tg.value_and_grad(lambda a, b: np.sum(abs(solved_by_parts(a, b)) ** 2), argnums=None, warmup=1)
    for _ in range(3):
        for found, known in zip(step(a, b)[1][1:], expected):
            assert found.dtype == known.dtype and found.shape == known.shape
            assert np.allclose(found, known, rtol=1e-4 if dtype is np.float32 else 1e-10)
    with pytest.raises(np.linalg.LinAlgError):
        tg.grad(lambda a: np.sum(abs(solved_by_parts(a, b))), np.zeros((3, 3), dtype))


def test_the_loop_of_a_ufunc_is_that_of_its_signature() -> None:
    x = np.float32([1.0, 2.0])
    value, tape = tg.trace(lambda x: np.multiply(x, 3, signature="dd->d"), x)
    assert value.dtype == float and np.array_equal(tape.play(x), value)
    with pytest.raises(TypeError, match="cast"):
        tg.trace(lambda x: np.multiply(x, x, signature="ii->i"), x)
