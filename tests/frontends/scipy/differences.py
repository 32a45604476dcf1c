"""differences: derivatives of a solver by differences of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg


def differences(f: Callable[[Any], Any], x: Any, step: float) -> Any:
    """Return the derivative of f's value by each number of x, by differences of the fourth order, so far apart."""
    x, found = np.asarray(x, float), []
    for place in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[place] = step
        parts = [np.asarray(f((x + k * e)[()])) for k in (1, -1, 2, -2)]
        found.append((8 * (parts[0] - parts[1]) - (parts[2] - parts[3])) / (12 * step))
    return np.moveaxis(np.array(found), 0, -1).reshape(np.shape(f(x[()])) + x.shape)


def check_solver(f: Callable[[Any], Any], x: Any, step: float = 1e-3, tol: float = 1e-7) -> None:
    """Check the value, a replay for another argument, both modes, the second order, and compiled calls."""
    value, tape = tg.trace(f, x)
    other = x * 1.03
    np.testing.assert_array_equal(value, f(x))
    np.testing.assert_allclose(tape.check().play(other), f(other), 1e-12, 1e-12)

    def total(x: Any) -> Any:
        return np.sum(np.sin(f(x)))

    def gradient(x: Any) -> Any:
        return tg.gradient(total, x)[0]

    np.testing.assert_allclose(gradient(x), differences(total, x, step), tol, tol)
    np.testing.assert_allclose(tg.jvp(total, (x,), (x,))[1], np.sum(gradient(x) * x), 1e-9, 1e-12)
    second = tg.gradient(lambda x: np.sum(tg.gradient(total, x)[0] * x), x)[0]
    np.testing.assert_allclose(
        second, differences(lambda y: np.sum(gradient(y) * x), x, step) + gradient(x), 10 * tol, 10 * tol
    )
    np.testing.assert_allclose(tg.gradtape(total, x).play(other)[1][1], gradient(other), 1e-9, 1e-12)
    step_ = tg.value_and_grad(total, argnums=None, warmup=1)
    for k in (1.0, 1.01, 0.99, 1.02):
        got, (_, dx) = step_(k * x)
        np.testing.assert_allclose(got, total(k * x), 1e-12, 1e-12)
        np.testing.assert_allclose(dx, gradient(k * x), 1e-9, 1e-12)
