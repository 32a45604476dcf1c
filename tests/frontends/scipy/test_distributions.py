"""The distributions of scipy.stats: values to SciPy's last digits, in its dtypes, at the ends of the support and of no element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as ss

import tapegrad as tg
from tapegrad.testing import check_grads

SHAPES = {"norm": 0, "t": 1, "lognorm": 1, "gamma": 1, "beta": 2, "cauchy": 0, "powerlaw": 1, "invgamma": 1, "genpareto": 1, "f": 2, "rayleigh": 0,
          "invgauss": 1, "binom": 2, "nbinom": 2, "poisson": 1}
KEYWORDS: list[dict[str, Any]] = [{}, {"loc": 0.25, "scale": 2.0}, {"loc": np.float32(0.5)}]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", SHAPES)
def test_values_and_dtypes_are_scipys(name: str, dtype: Any) -> None:
    random, dist = np.random.default_rng(0), getattr(ss, name)
    discrete = not isinstance(dist, ss.rv_continuous)
    methods = ("pmf", "logpmf") if discrete else ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
    for number, x in enumerate((np.array([0, 1, 2]).astype(dtype), (3 * random.random(3)).astype(dtype), dtype(1), np.zeros(0, dtype))):
        for shapes in ([1.5, 0.5], [np.array([1.5, 0.7, 1.0]).astype(dtype), np.array([0.5, 0.2, 1.2]).astype(dtype)]):
            for given in KEYWORDS[:1 if discrete or number % 2 else 3]:
                if np.size(x) != 3 and np.ndim(shapes[0]):
                    continue
                todo = [methods]  # all in one trace, or where one is refused each in its own
                while todo:
                    some = todo.pop()

                    def f(x: Any, *shapes: Any, some: tuple[str, ...] = some, given: dict[str, Any] = given) -> Any:
                        return [getattr(getattr(ss, name), method)(x, *shapes, **given) for method in some]
                    with np.errstate(all="ignore"):
                        wanted = f(x, *shapes[:SHAPES[name]])
                        try:
                            found, tape = tg.trace(f, x, *shapes[:SHAPES[name]])
                        except (tg.UnknownFunction, tg.ConcretizationError) as err:
                            if len(some) > 1:
                                todo += [(method,) for method in some]
                            elif isinstance(err, tg.UnknownFunction):  # a compiled quantile
                                assert some[0] in ("ppf", "isf", "cdf", "sf", "logcdf", "logsf")
                            else:  # at a limit, by which there is no derivative
                                assert name == "genpareto" and 0 in np.asarray(shapes[0])
                            continue
                        again = tape.play(x, *shapes[:SHAPES[name]])
                    for method, *ys, known in zip(some, found, again, wanted, strict=True):
                        for y in ys:
                            assert np.asarray(y).dtype == np.asarray(known).dtype and np.shape(y) == np.shape(known)
                            np.testing.assert_allclose(y, known, rtol=1e-12 if np.dtype(dtype).itemsize > 4 else 2e-7, err_msg=f"{method} of {x}, {shapes}, {given}")


@pytest.mark.filterwarnings("ignore:In future, it will be an error:DeprecationWarning")  # NumPy 2.2, of a truth as an index
@pytest.mark.parametrize("f", [
    lambda x: ss.kappa3.sf(x, 1.5), lambda a: ss.kappa3.sf(2.0, a),
    lambda loc: ss.invgauss.isf(0.4, 1.2, loc=loc), lambda loc: ss.wald.isf(0.4, loc=loc)])
def test_formulas_that_write_into_arrays_take_numbers(f: Any) -> None:
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (1.5, 1.6, 1.7):
        value, dx = tg.grad(f, x, argnums=0)
        assert value == f(x) and dx == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-6)
        assert step(x) == (pytest.approx(value, rel=1e-14), pytest.approx(dx, rel=1e-12))


@pytest.mark.parametrize("x", [np.array([0.3, 0.3, 0.2]), np.array([0.3, 0.4, 0.2]), np.ones((4, 3))], ids=str)
def test_a_singular_covariance(x: Any) -> None:
    cov, mean = np.array([[2.0, 2.0, 0.5], [2.0, 2.0, 0.5], [0.5, 0.5, 1.0]]), np.array([0.1, 0.1, 0.4])

    def f(x: Any, mean: Any) -> Any:
        return ss.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)
    value, tape = tg.trace(f, x, mean)
    np.testing.assert_allclose(value, f(x, mean), rtol=1e-12)
    np.testing.assert_allclose(tape.play(x, mean), f(x, mean), rtol=1e-12)
    if np.all(np.isfinite(value)):
        along = np.array([1.0, 1.0, 0.3])  # within the subspace
        expected = (np.sum(f(x + 1e-6 * along, mean)) - np.sum(f(x - 1e-6 * along, mean))) / 2e-6
        dx, dmean = tg.gradient(lambda x, mean: np.sum(f(x, mean)), x, mean)
        assert np.sum(dx * along) == pytest.approx(expected, rel=1e-6) == -dmean @ along

        def g(c: Any) -> Any:
            return np.sum(ss.multivariate_normal.logpdf(x, mean, c, allow_singular=True))
        assert np.sum(tg.gradient(g, cov)[0] * cov) == pytest.approx((g(cov * (1 + 1e-6)) - g(cov * (1 - 1e-6))) / 2e-6, rel=1e-6)


def test_a_complex_number_is_refused() -> None:
    with pytest.raises(tg.UnknownFunction, match="complex"):
        tg.trace(ss.norm.cdf, 1j)


def test_a_gradient_at_an_end_that_is_no_part_of_the_support() -> None:
    for f in (lambda x: ss.invgamma.pdf(x, 1.5), lambda x: ss.lognorm.pdf(x, 1.0), lambda x: ss.rayleigh.pdf(x)):
        assert tg.gradient(f, 0.0) == (0.0,)


@pytest.mark.parametrize(("f", "limit"), [
    (lambda x, p: ss.boxcox_llf(p, x), 0.0), (lambda x, p: ss.yeojohnson(x, p).sum(), 0.0),
    (lambda x, p: ss.yeojohnson(x - 1.0, p).sum(), 2.0), (lambda x, p: ss.yeojohnson_llf(p, x), 2.0)])
def test_an_exponent_at_which_the_formula_changes_for_its_limit_is_refused(f: Any, limit: float) -> None:
    x = np.array([0.3, 0.7, 2.0])
    with pytest.raises(tg.TapeError, match="formula changes where"):
        tg.gradient(f, x, limit)
    near = tg.gradient(f, x, limit + 1e-5)[1]
    np.testing.assert_allclose(near, (f(x, limit + 1e-3) - f(x, limit - 1e-3)) / 2e-3, 1e-3)
    np.testing.assert_array_equal(tg.grad(f, x, limit, argnums=0)[1], tg.gradient(lambda x: f(x, limit), x)[0])
    with pytest.raises(tg.TapeError, match="formula changes where"):
        tg.gradient(lambda p: ss.pmean(x, p), 0.0)


def test_a_shape_parameter_at_which_the_formula_changes_for_its_limit_is_refused() -> None:
    x = np.array([0.3, 0.7])
    for dist, shapes in ((ss.genextreme, (0.0,)), (ss.genpareto, (0.0,)), (ss.skewnorm, (0.0,)), (ss.kappa4, (0.3, 0.0))):
        def f(x: Any, *shapes: Any, dist: Any = dist) -> Any:
            return np.sum(dist.pdf(x, *shapes))
        with pytest.raises(tg.TapeError, match="changes where a shape parameter is 0"):
            tg.gradient(f, x, *shapes)
        np.testing.assert_array_equal(tg.grad(f, x, *shapes, argnums=0)[1], tg.gradient(lambda x, f=f, shapes=shapes: f(x, *shapes), x)[0])
    tape = tg.gradtape(lambda c: np.sum(ss.skewnorm.pdf(x, c)), 0.2)
    tape.play(0.3)
    with pytest.raises(tg.GuardError):
        tape.play(0.0)


@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf", "ppf", "isf", "pdf", "logpdf"])
def test_the_branch_that_is_not_taken_has_no_value(method: str) -> None:
    """SciPy computes both sides of dgamma, each outside the other's domain: by the number and the shape, in both modes, and twice."""
    for x in (0.2, 0.7) if method in ("ppf", "isf") else (-0.7, 0.7):
        check_grads(lambda x, a: getattr(ss.dgamma, method)(x, a), x, 1.3)
        check_grads(lambda x, a: getattr(ss.dgamma, method)(x, a), np.array([x, 0.9 * x]), 1.3)
        found = tg.jvp(lambda x: tg.gradient(getattr(ss.dgamma, method), x, 1.3)[0], (x,), (1.0,))[1]
        step = [tg.gradient(getattr(ss.dgamma, method), x + h, 1.3)[0] for h in (1e-6, -1e-6)]
        assert found == pytest.approx((step[0] - step[1]) / 2e-6, 1e-5, 1e-6)


@pytest.mark.parametrize("f", [
    lambda x, c: ss.genextreme.logpdf(x, c).sum(), lambda x, c: ss.genpareto.logpdf(x, c).sum(),
    lambda x, c: ss.tukeylambda.pdf(x, c).sum()], ids=range(3))
def test_a_choice_between_formulas_is_compiled(f: Any) -> None:
    step = tg.value_and_grad(f, argnums=(0, 1), warmup=1)
    for k in range(4):
        x, c = np.random.default_rng(k).random(5) + 0.1, 0.3 + k / 10
        (value, slopes), (expected, known) = step(x, c), tg.grad(f, x, c, argnums=(0, 1))
        assert np.isclose(value, expected, rtol=1e-12)
        assert all(np.allclose(a, b, rtol=1e-9) for a, b in zip(slopes, known, strict=True))
    assert step.stats.traces == 1  # type: ignore[attr-defined]
