"""Derivatives to the fourth where a rule's quotient or logarithm is filled in, against mpmath: a mask there is constant, its derivative not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tapegrad as tg

sp = pytest.importorskip("scipy.special")


def derivative(f: Callable[[Any], Any], order: int) -> Callable[[Any], Any]:
    return (lambda x: tg.gradient(derivative(f, order - 1), x)[0]) if order else f


def of_logarithm(x: Any) -> Any:
    return mpmath.sin(x) * mpmath.log(x + 3)


def norm(x: Any) -> Any:
    return mpmath.root(x ** 4 + (1 + x) ** 4, 4)


def weighed(x: Any) -> Any:
    return mpmath.log(mpmath.sin(x) * mpmath.exp(x) + mpmath.exp(x * x))


FILLED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sinc": (np.sinc, lambda x: mpmath.sinc(mpmath.pi * x)),
    "j0": (sp.j0, lambda x: mpmath.besselj(0, x)),
    "j1": (sp.j1, lambda x: mpmath.besselj(1, x)),
    "i0": (sp.i0, lambda x: mpmath.besseli(0, x)),
    "i1": (sp.i1, lambda x: mpmath.besseli(1, x)),
    "numpy_i0": (np.i0, lambda x: mpmath.besseli(0, x)),
    "xlogy": (lambda x: sp.xlogy(np.sin(x), x + 3), of_logarithm),
    "xlog1py": (lambda x: sp.xlog1py(np.sin(x), x + 2), of_logarithm),
    "spence": (lambda x: sp.spence(1 + x), lambda x: mpmath.polylog(2, -x)),
    "rgamma": (sp.rgamma, mpmath.rgamma),
    "rgamma:left": (lambda x: sp.rgamma(x - 3), lambda x: mpmath.rgamma(x - 3)),
    "pow": (lambda x: (2.0 + x) ** x, lambda x: (2 + x) ** x),
    "power": (lambda x: np.power(2.0 + x, np.sin(x)), lambda x: (2 + x) ** mpmath.sin(x)),
    "float_power": (lambda x: np.float_power(2.0 + x, np.sin(x)), lambda x: (2 + x) ** mpmath.sin(x)),
    "norm": (lambda x: np.linalg.norm(np.stack([x, 1 + x]), ord=4), norm),
    "logsumexp": (lambda x: sp.logsumexp(np.stack([x, x * x]), b=np.stack([np.sin(x), 1 + 0 * x])), weighed),
}


@pytest.mark.parametrize("name", FILLED)
@pytest.mark.parametrize("x", [0.0, 1e-8, 1e-4, 0.3])
def test_derivatives_to_the_fourth(name: str, x: float) -> None:
    f, exact = FILLED[name]
    with mpmath.workdps(40):
        expected = [float(mpmath.diff(exact, mpmath.mpf(x), k)) for k in range(5)]
    found = [derivative(f, k)(x) for k in range(5)]
    np.testing.assert_allclose(found, expected, 1e-6, 1e-9)
    np.testing.assert_allclose([tg.gradient(lambda v, k=k: sum(derivative(f, k)(u) for u in v), [x, 0.5])[0][0] for k in range(3)],
                               expected[1:4], 1e-6, 1e-9)


def test_of_sinc() -> None:
    xs = np.concatenate([np.linspace(-9, 9, 19), [0.31, 0.33, 1.6]])
    for n in (1, 2, 5, 12):
        with mpmath.workdps(60):
            expected = [float(mpmath.diff(lambda t: mpmath.sinc(mpmath.pi * t), mpmath.mpf(x), n)) for x in xs]
        np.testing.assert_allclose(tg.ops.sinc_derivative(xs, n=n), expected, 1e-11, 1e-12 * np.abs(expected).max())
    assert tg.gradient(lambda x: np.sinc(x).sum(), np.zeros((0, 2)))[0].shape == (0, 2)
    assert tg.gradient(lambda x: np.sinc(x).sum(), np.zeros(3, np.float32))[0].dtype == np.float32


def test_conventions_where_both_are_zero() -> None:
    assert tg.gradient(lambda x, z: sp.xlogy(x, z), 0.0, 0.0) == (0.0, 0.0)
    for p in (0.0, np.float64(0)):
        assert tg.gradient(lambda x, p: np.power(x, p), np.float64(0), p) == (0.0, 0.0)
    for x in (np.array([np.nan, 2.0, np.inf]), np.array([np.nan, 2.0, 1j])):
        np.testing.assert_array_equal(tg.gradient(lambda x: np.real(np.power(x, np.array([0, 0, 0])).sum()), x)[0], np.zeros(3))
    huge = np.array([1000.0, 0.0])
    with np.errstate(over="ignore"):
        assert tg.gradient(lambda x: sp.logsumexp(x, b=np.array([0.0, 1.0])), huge)[0].tolist() == [0.0, 1.0]
