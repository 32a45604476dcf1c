"""differences and linear: compiled functions that are differentiated without a rule."""

from __future__ import annotations

import math
from _statistics import _normal_dist_inv_cdf
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.rules.registry import DISPATCH, GIVEN, STAND_IN


def compiled(x: Any, a: float, name: str = "cube") -> Any:
    """What C would compute: it takes plain numbers alone."""
    y = np.frombuffer(np.asarray(x, float).tobytes()).reshape(np.shape(x)) * float(a)
    return (y ** 3).cumsum() if name == "cube" else (y ** 2, float(y.sum()))


def test_gradients_tangents_and_compiled_calls_are_those_of_differences() -> None:
    fn = tg.differences(lambda x, a, name="cube": compiled(x, a, name))

    def f(x: Any, a: Any) -> Any:
        square, total = fn(x * 2, a, "square")
        return (fn(x, a) * x).sum() + square[1] * total

    def g(x: Any, a: Any) -> Any:
        return ((x * a) ** 3).cumsum() @ x + (2 * x[1] * a) ** 2 * (2 * x * a).sum()
    x = np.array([0.3, -0.5, 0.9])
    step = tg.value_and_grad(f, argnums=(0, 1), warmup=1)
    for k in (1.0, 1.2, 1.4, 1.6):
        value, grads = step(k * x, 1.5)
        assert np.isclose(value, g(k * x, 1.5))
        for found, wanted in zip(grads, tg.grad(g, k * x, 1.5)[1][1:]):
            assert np.allclose(found, wanted, rtol=1e-8)
    assert np.allclose(tg.jvp(f, (x, 1.5), (x, 1.0)), tg.jvp(g, (x, 1.5), (x, 1.0)), rtol=1e-8)
    assert np.allclose(tg.jacobian(lambda x: fn(x, 2.0))(x), tg.jacobian(lambda x: ((2 * x) ** 3).cumsum())(x), rtol=1e-8)


def test_a_second_derivative_is_refused() -> None:
    fn = tg.differences(compiled)
    for derive in (tg.hessian, lambda f: lambda x: tg.hvp(f)(x, x),
                   lambda f: lambda x: tg.jvp(lambda y: tg.jvp(f, (y,), (y,))[1], (x,), (x,))):
        with pytest.raises(tg.TapeError, match="by finite differences, which have no derivative"):
            derive(lambda x: fn(x, 2.0).sum())(np.ones(2))


def test_a_complex_step_loses_no_digits() -> None:
    fn = tg.differences(lambda x: np.frombuffer(np.asarray(x ** 3).tobytes(), np.asarray(x).dtype).sum(), "complex")
    assert np.allclose(tg.gradient(fn, np.array([0.3, 0.7]))[0], [0.27, 1.47], rtol=1e-15)


def test_the_error_is_estimated_and_methods_are_checked() -> None:
    fn = tg.differences(lambda x: math.lgamma(x))
    error = abs(tg.gradient(fn, 3.0)[0] - (1.5 - 0.5772156649015329))
    assert error <= 10 * fn.error(3.0) < 1e-8
    coarse = tg.differences(lambda x: math.lgamma(x), step=1e-2)
    assert abs(tg.gradient(coarse, 3.0)[0] - (1.5 - 0.5772156649015329)) < 2 * coarse.error(3.0)
    with pytest.raises(tg.ArgumentError, match="central"):
        tg.differences(math.lgamma, "forward")


def test_linear_functions_have_every_derivative() -> None:
    def cumulated(x: Any, times: float = 1.0) -> Any:
        return np.frombuffer(x.tobytes()).cumsum() * times
    x = np.array([0.5, -1.0, 2.0])
    for adjoint in (None, lambda dy, times=1.0: dy[::-1].cumsum()[::-1] * times):
        fn = tg.linear(cumulated, adjoint)

        def f(x: Any) -> Any:
            return (fn(x * x, times=3.0) ** 2).sum()  # noqa: B023

        def g(x: Any) -> Any:
            return ((x * x).cumsum() ** 2).sum() * 9
        assert np.allclose(tg.gradient(f, x)[0], tg.gradient(g, x)[0])
        assert np.allclose(tg.hessian(f)(x), tg.hessian(g)(x))
        assert np.allclose(tg.jvp(f, (x,), (x,)), tg.jvp(g, (x,), (x,)))
        step = tg.value_and_grad(f, warmup=1)
        for k in (1.0, 2.0, 3.0):
            assert np.allclose(step(k * x)[1], tg.gradient(g, k * x)[0])
    with pytest.raises(tg.ArgumentError, match="is not linear"):
        tg.linear(lambda x: x + 1.0)(x)


def quantile(p: Any) -> Any:
    return _normal_dist_inv_cdf(p, 0.0, 2.0)


def test_a_compiled_function_of_a_module_is_differentiated_by_the_names_it_has() -> None:
    with pytest.raises(tg.ConcretizationError, match=r"from _statistics import \w+; tg.differences\(_normal_dist_inv_cdf"):
        tg.grad(quantile, 0.7)
    tg.differences(_normal_dist_inv_cdf)
    try:
        value, (slope,) = tg.value_and_grad(quantile, argnums=(0,))(0.7)
        assert value == quantile(0.7) == NormalDist(0.0, 2.0).inv_cdf(0.7)
        assert np.isclose(slope, 1 / NormalDist(0.0, 2.0).pdf(value), rtol=1e-8)
        assert "differences_of__normal_dist_inv_cdf" in str(tg.trace(quantile, 0.7)[1])
    finally:
        for table in (DISPATCH, GIVEN, STAND_IN):
            table.pop(_normal_dist_inv_cdf, None)


WEIGHTS = [2.0]
weighted = tg.linear(lambda x: np.frombuffer((x * WEIGHTS[0]).tobytes()), lambda dy: dy * WEIGHTS[0])


@pytest.mark.parametrize("ask", [
    lambda f, *args: tg.trace(lambda *args: tg.gradient(f, *args)[0].sum(), *args)[0],
    lambda f, *args: tg.compile(tg.value_and_grad(f))(*args)[1].sum(),
])
def test_an_adjoint_reads_a_list_that_is_an_argument_too_as_the_caller_has_it(ask: Any) -> None:
    x = np.array([1.0, 2.0])
    assert ask(lambda x, w: (weighted(x) * w[0]).sum(), x, WEIGHTS) == 8.0
