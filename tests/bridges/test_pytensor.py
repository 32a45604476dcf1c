"""A NumPy program as an operation of pytensor, against pytensor itself, and sampled by its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg

pytestmark = pytest.mark.filterwarnings("ignore")  # pytensor's own, of compilers and numba
pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
X = np.array([0.1, 0.2, -0.7])


def program(x: Any, w: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sin(x[i] * w)
    return {"waves": out, "sum": (out ** 2).sum()}


def test_values_and_gradients_of_any_order() -> None:
    x, w = pt.dvector(), pt.dscalar()

    def total(found: Any) -> Any:
        return found["sum"] + (found["waves"] * pt.arange(3)).sum()
    ours, theirs = total(tg.to_pytensor(program)(x, w)), total({"waves": pt.sin(x * w), "sum": (pt.sin(x * w) ** 2).sum()})
    for change in (lambda y: [y], lambda y: pytensor.grad(y, [x, w]), lambda y: [pytensor.gradient.hessian(y, x)],
                   lambda y: [pytensor.grad((pytensor.grad(y, x) ** 2).sum(), w)]):
        found, wanted = (pytensor.function([x, w], change(y))(X, 0.7) for y in (ours, theirs))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_types_that_a_run_on_ones_does_not_tell() -> None:
    x, n = pt.fvector(), pt.lscalar()
    f = tg.to_pytensor(lambda x, n: (x[:2] @ np.array([1.0, 2.0], np.float32)) * x[2] ** n, [pt.fscalar])
    found = pytensor.function([x, n], pytensor.grad(f(x, n), x))(np.array([1, 2, 3], np.float32), 2)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [9, 18, 30])


def test_a_sampler_that_follows_the_gradient() -> None:
    """Langevin steps, as PyMC's samplers make them: of a normal density that a NumPy program computes."""
    def density(x: Any) -> Any:
        total = 0.0
        for i in range(2):
            total = total - 0.5 * ((x[i] - (1.0, -2.0)[i]) / (0.5, 2.0)[i]) ** 2
        return total
    x = pt.dvector(shape=(2,))
    logp = tg.to_pytensor(density)(x)
    step = pytensor.function([x], [logp, pytensor.grad(logp, x)])
    rng, at, scale, found = np.random.default_rng(0), np.zeros(2), np.array([0.4, 1.6]), []
    value, slope = step(at)
    for _ in range(4000):
        new = at + 0.5 * scale ** 2 * slope + scale * rng.normal(size=2)
        new_value, new_slope = step(new)
        back, forth = (((b - a - 0.5 * scale ** 2 * s) / scale) ** 2 for a, b, s in ((new, at, new_slope), (at, new, slope)))
        if np.log(rng.random()) < new_value - value - 0.5 * (back.sum() - forth.sum()):
            at, value, slope = new, new_value, new_slope
        found.append(at)
    np.testing.assert_allclose(np.mean(found, 0), [1, -2], atol=0.3)
    np.testing.assert_allclose(np.std(found, 0), [0.5, 2.0], rtol=0.15)
