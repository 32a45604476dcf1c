"""A zero cotangent stops at a pole: once and compiled, forwards and backwards, in every order, of torch's tensors too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.special

import tapegrad as tg

X = np.array([0.0, 0.3, 2.0])
MASKED: dict[str, Callable[[Any], Any]] = {
    "sqrt": lambda x: np.where(x > 0, np.sqrt(x), 0.0).sum(),
    "cbrt": lambda x: np.where(x > 0, np.cbrt(x), x).sum(),
    "log": lambda x: np.where(x > 0, np.log(x), -1.0).sum(),
    "log2": lambda x: np.log2(x)[1:].sum(),
    "log10": lambda x: np.log10(x)[1:].sum(),
    "log1p": lambda x: np.log1p(x - 1.0)[1:].sum(),
    "power": lambda x: np.where(x > 0, x ** 0.5 + x ** -1.5, 2.0).sum(),
    "powers": lambda x: np.where(x > 0, x ** np.array([0.5, 0.7, -2.0]), 2.0).sum(),
    "reciprocal": lambda x: np.reciprocal(x)[1:].sum(),
    "divide": lambda x: np.where(x > 0, np.sin(x) / x, 1.0).sum() + np.divide(x + 1.0, x)[1:].sum(),
    "divided number": lambda x: np.where(x > 0, 1.0 / x + 2 / x, 1.0).sum(),
    "divided after a pole": lambda x: np.where(x > 0, x / np.log((np.sqrt(1 + x * x) + x) / 1.0), 1.0).sum(),
    "arcsin": lambda x: np.where(x > 0, np.arcsin(1.0 - x / 4.0) + np.arccos(1.0 - x / 4.0), 0.0).sum(),
    "arccosh": lambda x: np.where(x > 0, np.arccosh(1.0 + x) + np.arctanh(1.0 - x / 4.0), 0.0).sum(),
    "float_power": lambda x: np.where(x > 0, np.float_power(x, 0.5) + np.float_power(x, -1.5), 2.0).sum(),
    "logit": lambda x: np.where(x > 0, scipy.special.logit(x / 4), 0.0).sum() + np.where(x > 0, scipy.special.ndtri(x / 4), 0.0).sum(),
    "erfinv": lambda x: np.where(x > 0, scipy.special.erfinv(1 - x / 4) + scipy.special.erfcinv(x / 4), 0.0).sum(),
    "entropies": lambda x: np.where(x > 0, scipy.special.entr(x) + scipy.special.rel_entr(1.0, x) + scipy.special.kl_div(x, 2.0), 0.0).sum(),
    "xlogy": lambda x: np.where(x > 0, scipy.special.xlogy(x + 1.0, x) + scipy.special.xlog1py(1.0, x - 1.0), 0.0).sum(),
    "gammaln": lambda x: np.where(x > 0, scipy.special.gammaln(x) + scipy.special.digamma(x), 0.0).sum(),
    "gamma": lambda x: np.where(x > 0, scipy.special.gamma(x) + scipy.special.beta(x, 2.0) + scipy.special.beta(1.5, x), 0.0).sum(),
    "binom": lambda x: np.where(x > 0, scipy.special.binom(x - 1.0, 0.5) + scipy.special.poch(x, 1.5), 0.0).sum(),
    "beyond the domain": lambda x: np.where(x > 1, np.arccosh(x), x).sum(),
    "boxcox": lambda x: np.where(x > 0, scipy.special.boxcox(x, 0.5) + scipy.special.boxcox1p(x - 1.0, 0.5), 0.0).sum(),
    "powers of more than one": lambda x: np.where(x > 0, x ** 1.5 + (x - 0.2) ** 2.5, 0.0).sum(),
    "a row that is overwritten": lambda x: overwritten(np.sqrt(x)),
    "a step of Adam": lambda x: adam((x - 0.3) ** 2),
}


def overwritten(y: Any) -> Any:
    y[0] = 1.0
    return (y * y).sum()


def adam(gradient: Any) -> Any:
    mean, square = 0.1 * gradient, 0.001 * gradient ** 2
    return (mean / (np.sqrt(square) + 1e-8) * np.arange(1.0, 4.0)).sum()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MASKED)
def test_the_derivative_is_finite_where_the_function_is(name: str) -> None:
    f = MASKED[name]
    at = [X, X * 1.5, X + [0.0, 0.1, 0.2]]
    step = tg.value_and_grad(f, warmup=1)
    for x in [*at, *at]:
        ones = np.array([0.0, 1.0, 1.0])  # along which the function has a slope
        found = [(f(x + e) - f(x - e)) / 2e-7 for e in 1e-7 * np.eye(3)[1:]]
        for _, dx in ((0, tg.gradient(f, x)[0]), step(x)):
            assert np.isfinite(dx).all()
            assert np.allclose(dx[1:], found, rtol=1e-4, atol=1e-6)
        assert np.isclose(tg.jvp(f, (x,), (ones,))[1], np.sum(found), rtol=1e-4, atol=1e-6)
        second = tg.hessian(f)(x)
        assert np.isfinite(second).all()
        again = tg.gradient(lambda x: np.sum(tg.gradient(f, x)[0]), x)[0]
        assert np.allclose(again, second.sum(axis=0), rtol=1e-9), (again, second)
        assert np.isclose(tg.taylor(f, x, 2)[2], second.sum() / 2, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", [
    lambda x: np.where(x > 0, np.exp(-1 / x), 0.0), lambda x: np.where(x > 0, np.exp(-(x + 1) / x), 0.0), lambda x: np.where(x > 0, x * np.sqrt(x), 0.0),
    lambda x: np.where(x > 0, np.sin(np.sqrt(x)), 0.0), lambda x: np.where(x > 0, np.cbrt(x) + scipy.special.erfcinv(x / 4), 0.0)])
def test_gradients_of_gradients_stop_where_the_gradient_did(f: Callable[[Any], Any]) -> None:
    found: Any = partial(lambda f, x: f(x).sum(), f)
    for _ in range(3):
        step = tg.value_and_grad(found, warmup=1)
        for dx in (tg.gradient(found, X)[0], *(step(X)[1] for _ in range(4))):
            assert dx[0] == 0.0
            assert np.allclose(dx[1:], tg.gradient(found, X[1:])[0])
        found = partial(lambda f, x: np.sum(tg.gradient(f, x)[0]), found)


SPECIAL = {"gamma": 0.0, "loggamma": 0.0, "erfinv": 1.0, "ndtri": 0.0, "ellipk": 1.0, "k0": 0.0, "k1": 0.0, "y0": 0.0, "expi": 0.0, "exp1": 0.0, "spence": 0.0}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("kind", [float, np.float64, np.float32, lambda x: np.array([x, 0.5]), lambda x: np.array([x, 0.5], np.float32)])
def test_a_zero_cotangent_stops_at_the_poles_of_special_functions(name: str, kind: Callable[[float], Any]) -> None:
    pole, fn = SPECIAL[name], getattr(scipy.special, name)

    def f(x: Any) -> Any:
        return np.sum(np.where(x != pole, np.real(fn(x)), 0.0))
    x = kind(pole)
    step, expected = tg.value_and_grad(f, warmup=1), np.zeros(np.shape(x))
    if np.ndim(x):
        expected[1] = (fn(0.5 + 1e-6) - fn(0.5 - 1e-6)) / 2e-6
    for dx in (tg.gradient(f, x)[0], step(x)[1], step(x)[1], tg.jacobian(f)(x)):
        assert np.allclose(dx, expected, rtol=1e-5)


def test_derivatives_at_a_zero_that_stops_nothing() -> None:
    def f(x: Any) -> Any:
        return np.sum((np.sqrt(x) - 1.0) ** 3 + (1.0 / x - 1.0) ** 2)  # whose cotangents are 0 at 1
    found = [f]
    for _ in range(4):
        found.append(lambda x, g=found[-1]: np.sum(tg.gradient(g, x)[0]))
    assert np.allclose([g(np.array([1.0])) for g in found], [0.0, 0.0, 2.0, -11.25, 69.75])


def test_a_pole_that_is_asked_stays_infinite() -> None:
    with np.errstate(all="ignore"):
        assert tg.gradient(lambda x: np.sqrt(x).sum(), X)[0][0] == np.inf
        assert tg.gradient(lambda x: np.log(x).sum(), X)[0][0] == np.inf


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("fn", [np.arccos, np.arcsin, np.arccosh, np.arctanh, np.sqrt, np.log, np.cbrt])
def test_every_kind_of_number_has_the_same_infinite_slope(fn: Callable[[Any], Any]) -> None:
    at = 1.0 if fn.__name__.startswith("a") else 0.0
    with np.errstate(all="ignore"):
        expected = tg.gradient(lambda x: fn(x).sum(), np.array([at]))[0][0]
        for kind in (float, np.float64, np.array):
            assert np.isinf(expected) and tg.gradient(fn, kind(at))[0] == expected == tg.jvp(fn, (kind(at),), (kind(1.0),))[1]


def test_derivatives_of_higher_order_are_those_of_the_product() -> None:
    def f(x: Any) -> Any:
        return ((np.sqrt(x) - 1.0) ** 2).sum()  # whose cotangent is 0 at 1, where the slope is finite
    x = np.array([1.0, 4.0])
    for hessian in (tg.hessian(f)(x), np.array([tg.hvp(f)(x, e) for e in np.eye(2)])):
        assert np.allclose(hessian, np.diag(0.5 / x ** 1.5))
    assert np.isclose(tg.hessian(lambda x: np.log(x) ** 2)(1.0), 2.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exponent", [1, 2.0, 0.5])
def test_a_zero_cotangent_stops_at_the_logarithm_of_a_negative_base(exponent: float) -> None:
    def f(p: Any, x: Any) -> Any:
        return np.where(x > 0, x ** p, 0.0).sum()
    x = np.array([-1.0, 0.5, 2.0])
    slope = np.sum(x[1:] ** exponent * np.log(x[1:]))
    step = tg.value_and_grad(f, warmup=1)
    found = [tg.gradient(f, exponent, x)[0], *[step(exponent, x)[1] for _ in range(3)]]
    assert np.allclose(found, slope)
