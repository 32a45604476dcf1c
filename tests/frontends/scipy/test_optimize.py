"""scipy.optimize in a traced program: roots, minima and fits are differentiated by what they solve."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize as so

import tapegrad as tg
from tests.frontends.scipy.differences import check_solver, differences

TIGHT = {"xtol": 1e-13, "rtol": 1e-14}


def system(x: Any, a: Any) -> Any:
    return np.array([x[0] ** 2 + a[0] * x[1] - 3.0, x[1] - a[1] * x[0]])


@pytest.mark.quick
def test_a_root_of_a_closure() -> None:
    def f(a: Any) -> Any:
        return so.brentq(lambda x: x**3 - a, 0.0, 9.0)

    assert tg.grad(f, 8.0) == (pytest.approx(2.0), (None, pytest.approx(1 / 12)))
    assert [op.fn.__name__ for op in tg.trace(f, 8.0)[1] if op.kind == "call"] == ["brentq"]


@pytest.mark.parametrize(
    "f",
    [
        *(
            functools.partial(lambda fn, a: fn(lambda x: x**3 - a, 0.0, 9.0, **TIGHT), fn)
            for fn in (so.brentq, so.brenth, so.bisect, so.ridder, so.toms748)
        ),
        lambda a: so.brentq(lambda x, b, c: x**3 - b * c, 0.0, 9.0, args=(a, 1.0), **TIGHT),
        lambda a: so.bisect(lambda x, b: x**3 - b, a=0.0, b=9.0, args=a, **TIGHT),
        lambda a: so.brentq(functools.partial(lambda b, x: x**3 - b, a), 0.0, 2 * a, full_output=True, **TIGHT)[0],
        lambda a: so.newton(lambda x: x**3 - a, 1.0, tol=1e-13),
        lambda a: so.newton(lambda x, b: x**3 - b, 1.0, lambda x, b: 3 * x * x, args=(a,), tol=1e-13),
        lambda a: (
            so.newton(
                lambda x: x**3 - a, 1.0, lambda x: 3 * x * x, fprime2=lambda x: 6 * x, full_output=True, tol=1e-13
            )[1].root
        ),
        lambda a: so.root_scalar(lambda x: x**3 - a, bracket=(0.0, 9.0), xtol=1e-13).root,
        lambda a: so.root_scalar(lambda x: (x**3 - a, 3 * x**2), fprime=True, x0=1.0).root,
        lambda a: so.fixed_point(lambda x: np.cos(x) + a / 9, 0.5, xtol=1e-13),
        lambda a: so.minimize_scalar(lambda x: (x - a) ** 2 + np.cos(x), tol=1e-12).fun,
        lambda a: so.golden(lambda x: (x - a**2) ** 2 * (1 + a), tol=1e-10),
        lambda a: so.golden(lambda x, b: (x - a * b) ** 2, (a,), (0.0, 1.0), 1e-10),
        lambda a: so.brent(lambda x: (x - a) ** 2 + 0.1 * np.cos(x), tol=1e-10),
        lambda a: so.fminbound(lambda x: (x - a) ** 2 + 0.1 * np.cos(x), -3.0, 9.0, xtol=1e-10),
    ],
)
def test_one_unknown(f: Callable[[Any], Any]) -> None:
    check_solver(f, 4.0)


@pytest.mark.parametrize("fn", [so.broyden1, so.broyden2, so.anderson, so.newton_krylov])
def test_methods_for_large_systems(fn: Callable[..., Any]) -> None:
    a = np.array([1.0, 2.0])
    rows = tg.jacobian(lambda a: fn(lambda x: x**3 + x - a, np.ones(2), f_tol=1e-10))(a)
    x = fn(lambda x: x**3 + x - a, np.ones(2), f_tol=1e-10)
    np.testing.assert_allclose(rows, np.diag(1 / (3 * x**2 + 1)), 1e-8, 1e-9)


@pytest.mark.parametrize(
    "search",
    [
        lambda f: so.differential_evolution(f, [(0.0, 5.0)], seed=1),
        lambda f: so.basinhopping(f, [1.0], niter=2, seed=1),
        lambda f: so.dual_annealing(f, [(0.0, 5.0)], maxiter=5, seed=1),
        lambda f: so.shgo(f, [(0.0, 5.0)]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_global_minima(search: Callable[..., Any]) -> None:
    value, (_, da) = tg.grad(lambda a: search(lambda x: (x[0] - a) ** 2 + 0.1 * x[0] ** 2).x[0], 2.0)
    assert (value, da) == (pytest.approx(2 / 1.1, 1e-4), pytest.approx(1 / 1.1))


def test_leastsq() -> None:
    assert tg.gradient(lambda a: so.leastsq(lambda x, a: x * x - a, [1.0], args=(a,))[0][0], 4.0) == (
        pytest.approx(0.25),
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda a: so.root(system, np.ones(2), args=(a,), tol=1e-11).x,
        lambda a: so.root(lambda x: system(x, a), [1.0, 1.0], method="lm", tol=1e-13).x,
        lambda a: (
            so.root(system, np.ones(2), (a,), jac=lambda x, a: np.array([[2 * x[0], a[0]], [-a[1], 1.0]]), tol=1e-11).x
        ),
        lambda a: so.fsolve(system, np.ones(2), args=(a,), xtol=1e-11),
        lambda a: so.fsolve(lambda x: list(system(x, a)), [1.0, 1.0], xtol=1e-11),
        lambda a: so.newton(lambda x, b: x**3 - b, np.ones(2), args=(a,), tol=1e-13),
        lambda a: so.fixed_point(lambda x: np.sqrt(9 * a / (x + 1)), np.ones(2), xtol=1e-13),
        lambda a: (
            so.minimize(
                lambda x: (a[0] - x[0]) ** 2 + a[1] * (x[1] - x[0] ** 2) ** 2 + 0.1 * x[1] ** 2,
                np.ones(2),
                method="Nelder-Mead",
                options={"xatol": 1e-9, "fatol": 1e-18},
            ).fun
        ),
    ],
)
def test_several_unknowns(f: Callable[[Any], Any]) -> None:
    check_solver(f, np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    "options",
    [
        {"method": "BFGS"},
        {"method": "L-BFGS-B", "bounds": [(-9.0, 9.0), (None, None)]},
        {"method": "Newton-CG"},
        {"method": "trust-exact", "tol": 1e-6},
    ],
)
def test_minima(options: dict[str, Any]) -> None:
    def objective(x: Any, a: Any) -> Any:
        return (a[0] - x[0]) ** 2 + a[1] * (x[1] - x[0] ** 2) ** 2 + 0.1 * x[1] ** 2 + np.exp(x[0])

    jac, hess = tg.jacobian(objective), tg.hessian(objective)
    second = {"hess": hess} if options["method"].startswith("trust") else {}

    def f(a: Any) -> Any:
        return so.minimize(objective, np.zeros(2), args=(a,), jac=jac, **second, **{"tol": 1e-10, **options}).x

    a = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.jacobian(f)(a), differences(f, a, 1e-3), 1e-4, 1e-5)
    np.testing.assert_allclose(
        tg.gradient(
            lambda a: (
                so.minimize(objective, np.zeros(2), args=(a,), jac=jac, **second, **{"tol": 1e-10, **options}).fun
            ),
            a,
        )[0],
        tg.gradient(lambda a: objective(f(a), a), a)[0],
        1e-6,
        1e-8,
    )


def test_many_variables() -> None:
    n = 600
    weights, along = np.linspace(1, 2, n), np.cos(np.arange(n) / 100)

    def objective(x: Any, a: Any) -> Any:
        return np.sum((x - a) ** 2) + 0.3 * np.sum((x[1:] - x[:-1]) ** 2) + 0.05 * np.sum(x**4)

    gradient = tg.value_and_grad(objective, argnums=0)

    def f(a: Any) -> Any:
        return (
            weights
            @ so.minimize(
                gradient, np.zeros(n), args=(a,), jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-9}
            ).x
        )

    a = np.sin(np.arange(n))
    slope = (f(a + 1e-3 * along) - f(a - 1e-3 * along)) / 2e-3
    assert tg.gradient(f, a)[0] @ along == pytest.approx(slope, 1e-5)
    assert tg.jvp(f, (a,), (along,))[1] == pytest.approx(slope, 1e-5)


T = np.linspace(0.0, 1.0, 12)
DATA = 2 * np.exp(-1.3 * T) + 0.1 * np.cos(9 * T)
EXACT: dict[str, Any] = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}


def model(t: Any, a: Any, b: Any) -> Any:
    return a * np.exp(-b * t)


def model_jac(t: Any, a: Any, b: Any) -> Any:
    return np.stack([np.exp(-b * t), -a * t * np.exp(-b * t)], axis=1)


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_least_squares(loss: str) -> None:
    def fit(data: Any) -> Any:
        return so.least_squares(
            lambda p: model(T, *p) - data,
            np.array([2.0, 1.2]),
            jac=lambda p: model_jac(T, *p),
            loss=loss,
            f_scale=0.3,
            **EXACT,
        )

    np.testing.assert_array_equal(tg.trace(lambda data: fit(data).x, DATA)[0], fit(DATA).x)
    np.testing.assert_allclose(tg.trace(lambda data: fit(data).cost, DATA)[0], fit(DATA).cost, 1e-12)
    np.testing.assert_allclose(
        tg.jacobian(lambda data: fit(data).x)(DATA), differences(lambda data: fit(data).x, DATA, 1e-3), 1e-4, 1e-5
    )


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("sigma", [None, 1 + 0.5 * T, np.eye(12) * 1.5 + 0.1])
def test_curve_fit(sigma: Any, absolute: bool, part: int) -> None:
    def fit(data: Any, sigma: Any) -> Any:
        jac = model_jac if np.ndim(sigma) < 2 else None
        return so.curve_fit(model, T, data, [2.0, 1.2], sigma, absolute, jac=jac, **EXACT)[part]

    def of_data(data: Any) -> Any:
        return fit(data, sigma)

    def of_sigma(sigma: Any) -> Any:
        return fit(DATA, sigma)

    np.testing.assert_array_equal(tg.trace(of_data, DATA)[0], of_data(DATA))
    for f, x in ((of_data, DATA), *([(of_sigma, sigma)] if sigma is not None else [])):
        np.testing.assert_allclose(tg.jacobian(f)(x), differences(f, x, 1e-2), 1e-3, 1e-4)


@pytest.mark.filterwarnings("ignore")
def test_curve_fit_without_a_covariance() -> None:
    def fit(data: Any) -> Any:
        return so.curve_fit(model, np.array([0.0, 1.0]), data, [1.0, 1.0])

    _, pcov = tg.trace(fit, np.array([2.0, 1.0]))[0]
    np.testing.assert_array_equal(pcov, np.full((2, 2), np.inf))
    np.testing.assert_allclose(tg.jacobian(lambda data: fit(data)[0])(np.array([2.0, 1.0])), [[1, 0], [0.5, -1]], 1e-6, 1e-15)


# -- what is refused


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda a: so.brute(lambda x: (x[0] - a) ** 2, [(0.0, 5.0)])[0], "the steps of the solver"),
        (lambda a: so.newton(lambda x: x**3 - a + 0 * np.random.rand(), 1.0), "draws random numbers"),
        (lambda a: so.newton(lambda x, g: x**3 - a, 1.0, args=(np.random.default_rng(0),)), "draws random numbers"),
        (
            lambda a: so.minimize(lambda x: (x[0] - a) ** 2, np.ones(1), bounds=[(0.0, 1.0)]).x[0],
            "no optimum inside the bounds",
        ),
        (
            lambda a: so.minimize_scalar(lambda x: (x - a) ** 2, bounds=(0.0, 1.0), method="bounded").x,
            "no optimum inside the bounds",
        ),
        (
            lambda a: so.least_squares(lambda x: x - a, np.ones(1) / 2, bounds=(0.0, 1.0)).x[0],
            "no optimum inside the bounds",
        ),
        (lambda a: so.minimize(lambda x: (x[0] + x[1] - a) ** 2, np.ones(2)).x[0], "singular"),
        (
            lambda a: so.minimize(
                lambda x: (x[0] - a) ** 2, np.ones(1), constraints={"type": "eq", "fun": lambda x: x[0] - 1}
            ).x[0],
            "constrained solution",
        ),
        (lambda a: so.minimize(so.rosen, a * np.ones(5), options={"maxiter": 2}).x[0], "did not converge"),
        (lambda a: so.root(lambda x: x * x + a, 9.0).x[0], "did not converge"),
        (lambda a: so.fsolve(lambda x: x * x + a, 9.0)[0], "did not converge"),
        (lambda a: so.root_scalar(lambda x: x**3 - a, bracket=(0, 9), maxiter=2).root, "did not converge"),
        (
            lambda a: so.brentq(lambda x: x - a, 0.0, 9.0, full_output=True)[1].iterations,
            "a solver's internal steps are not recorded",
        ),
        (lambda a: so.brentq(lambda x: np.sign(x - a) * (1 + x), 0.0, 9.0), "does not solve the equations"),
        (
            lambda a: so.least_squares(
                lambda x: x - a, np.ones(1), loss=lambda z: np.stack([z, np.ones(1), np.zeros(1)])
            ).x[0],
            "a loss that is a function",
        ),
    ],
)
def test_refused_with_the_users_line(f: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(tg.UnknownFunction, match=said) as caught:
        tg.grad(f, 2.0)
    assert caught.value.try_ and caught.value.where is not None and caught.value.where.file == __file__


@pytest.mark.parametrize("method", ["BFGS", "CG", "L-BFGS-B"])
def test_a_search_that_rounding_ends_at_a_vanishing_gradient_has_converged(method: str) -> None:
    def f(a: Any) -> Any:
        return so.minimize(
            lambda x: 1e3 * (x[0] - a) ** 2 + np.cosh(x[1] * a), np.ones(2), method=method, options={"gtol": 1e-15}
        ).x[0]

    assert tg.gradient(f, 1.5) == (pytest.approx(1.0, abs=1e-6),)


def test_what_a_compiled_function_cannot_answer_is_refused() -> None:
    step = tg.value_and_grad(
        lambda a: so.minimize(lambda x: (x[0] - a) ** 2, np.ones(1), bounds=[(0.0, 1.0)]).x[0], argnums=None, warmup=1
    )
    for a in (0.1, 0.2, 0.3, 0.4):
        assert step(a)[1][1] == pytest.approx(1.0)
    with pytest.raises(tg.UnknownFunction, match="no optimum inside the bounds"):
        step(2.0)


def test_an_error_that_is_caught_is_a_branch() -> None:
    def f(a: Any) -> Any:
        try:
            return so.brentq(lambda x: x - a, 0.0, 1.0)
        except ValueError:
            return 7 * a

    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for a in (0.1, 0.2, 0.3, 2.0, 3.0, 4.0, 0.4):
        assert step(a) == (pytest.approx(a if a < 1 else 7 * a), (None, pytest.approx(1.0 if a < 1 else 7.0)))


def test_members_of_a_batch() -> None:
    def f(a: Any) -> Any:
        return so.brentq(lambda x: x - a if x > 1 else x**3 - a, -5.0, 5.0)

    a = np.array([0.5, 0.7, 2.0])
    np.testing.assert_allclose(tg.vmap(f)(a), [f(x) for x in a])
    expected = [tg.gradient(f, x)[0] for x in a]
    np.testing.assert_allclose(tg.gradient(lambda a: tg.vmap(f)(a).sum(), a)[0], expected)
    np.testing.assert_allclose(tg.vmap(lambda x: tg.gradient(f, x)[0])(a), expected)


def test_a_traced_value_by_a_default_is_refused() -> None:
    def f(a: Any) -> Any:
        def residual(x: Any, c: Any = a) -> Any:
            return x**3 - a * c

        return so.newton(residual, 1.0)

    with pytest.raises(tg.UnknownFunction, match="neither an argument nor captured"):
        tg.grad(f, 2.0)


def test_an_object_that_keeps_its_hash_is_no_change_of_what_a_function_captured() -> None:
    class Fluid:
        def __init__(self, density: float) -> None:
            self.density, self.kept = density, hash((self.__class__.__name__, 1 << 70))

        def __hash__(self) -> int:
            return self.kept

    fluid = Fluid(3.0)

    def f(a: Any) -> Any:
        return so.root(lambda x: x ** 2 * fluid.density - a, [1.0]).x.sum()
    assert tg.gradient(f, 12.0) == pytest.approx((1 / 12,))
