"""A NumPy program as a primitive of HIPS autograd, against autograd itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg

autograd = pytest.importorskip("autograd")
anp = pytest.importorskip("autograd.numpy")
X = np.array([0.1, 0.2, -0.7])


def program(x: Any, w: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = np.sin(x[i] * w)
    return {"waves": out, "count": 3, "sum": (out ** 2).sum()}


def loss(f: Any) -> Any:
    def total(x: Any, w: Any) -> Any:
        found = f(x, w)
        return found["sum"] + anp.sum(found["waves"] * anp.arange(3.0))
    return total


def test_gradients_of_any_order() -> None:
    ours, theirs = loss(tg.to_autograd(program)), loss(lambda x, w: {"waves": anp.sin(x * w), "sum": anp.sum(anp.sin(x * w) ** 2)})
    assert tg.to_autograd(program)(X, 0.7)["count"] == 3
    for change in (lambda f: f, lambda f: autograd.grad(f, (0, 1)), autograd.hessian, lambda f: autograd.grad(lambda x, w: anp.sum(autograd.grad(f)(x, w) ** 2), 1),
                   lambda f: autograd.jacobian(autograd.grad(f, 1))):
        found, wanted = change(ours)(X, 0.7), change(theirs)(X, 0.7)
        for a, b in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_one_value_and_what_is_no_array() -> None:
    np.testing.assert_allclose(autograd.jacobian(tg.to_autograd(lambda x: np.cumsum(x * x)))(X), np.tril(np.ones((3, 3))) * 2 * X, 1e-12)
    assert autograd.grad(tg.to_autograd(lambda x, n: x ** n))(2.0, 3) == 12.0
