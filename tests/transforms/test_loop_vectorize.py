"""Loops whose runs do not depend on each other become operations on arrays, and others do not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

N = 40


def filled(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    for i in range(1, N - 1):
        out[i] = x[i - 1] - 2.0 * x[i] + x[i + 1] * y[-i]
    return np.sum(out ** 2) + out[3]


def rows(x: Any, y: Any) -> Any:
    out = np.empty((N, 3))
    for i in range(N):
        out[i, 0], out[i, 1], out[i, -1] = np.sin(x[i]), 1.0, x[i] * i
    return np.sum(out[:, 1:] * out[:, :2]) + np.sum(out) * y[0]


def twice_written(x: Any, y: Any) -> Any:
    out = np.ones(N) * y
    for i in range(N):
        out[i] = x[i] * 2.0
        out[i] = np.where(x[i] > 0.0, x[i] ** 2, y[i])
    return np.sum(out ** 3)


def listed(x: Any, y: Any) -> Any:
    found = [x[i] * y[N - 1 - i] for i in range(N)]
    return np.sum(np.array(found) ** 2) + found[3] * found[5]


def summed(x: Any, y: Any) -> Any:
    total, rest = x[0], y[0] * 2.0
    for i in range(1, N):
        total += 0.5 * i * np.exp(-x[i] ** 2) * y[i]
        rest -= x[i]
    return total * rest


def twice_read(x: Any, y: Any) -> Any:
    found = np.zeros(N)
    for i in range(N):
        found[i] = x[i] * y[i]
    total = 0.0
    for i in range(N - 1, -1, -1):
        total = total + found[i] ** 2
    return total


def overlapping(x: Any, y: Any) -> Any:  # the later write stands, and it is the next run that overwrites
    out = np.zeros(N + 1)
    for i in range(N):
        out[i] = x[i] ** 2
        out[i + 1] = y[i] ** 3
    return np.sum(out * np.arange(N + 1.0))


def handed_on(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    out[0] = y[0]
    for i in range(1, N):
        out[i] = out[i - 1] * x[i] + y[i]
    return np.sum(out)


def seen_between(x: Any, y: Any) -> Any:
    out, total = np.zeros(N), 0.0
    for i in range(N):
        out[i] = x[i] ** 2
        total = total + np.sum(out) * y[i]
    return total


def wrapped(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    for i in range(N):
        out[i] = x[i - 1] * y[i]
    return np.sum(out ** 2)


def everywhere(x: Any, y: Any) -> Any:
    out = np.zeros((N, N))
    for i in range(N):
        out[i, i] = x[i] * y[i]
    return np.sum(out @ x)


def steered(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    for i in range(N):
        out[i] = x[i] * y[i] if x[i] < 5.0 else y[i]
    return np.sum(out ** 2)


ARRAYS = [filled, rows, twice_written, listed, summed, twice_read]
LOOPS = [overlapping, handed_on, seen_between, wrapped, everywhere, steered]


@pytest.mark.parametrize("f", [*ARRAYS, *LOOPS], ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", [{}, {"mode": "numpy"}, {"backend": "torch"}], ids=str)
def test_values_and_gradients_are_those_of_the_program(f: Callable[..., Any], how: Any) -> None:
    step = tg.value_and_grad(f, argnums=(0, 1), **how)
    for seed in range(5):
        x, y = np.random.default_rng(seed).standard_normal((2, N))
        value, (_, dx, dy) = tg.grad(f, x, y)
        found = step(x, y)
        for part, expected in zip((found[0], *found[1]), (value, dx, dy)):
            np.testing.assert_allclose(np.asarray(part), expected, 1e-11, 1e-11)
    assert step.stats.hits >= 2
    assert any(op.fn.__name__.endswith(" loop") for op in step.tapes[0].ops if op.kind == "call") == (f in LOOPS)


def test_other_shapes_and_dtypes_are_traced_anew() -> None:
    def f(x: Any) -> Any:
        return sum([x[i] ** 2 for i in range(20)], 0.0)  # a longer array gives the same
    flat = tg.flatgrad(tg.roll(tg.trace(f, np.arange(20.0))[1]))
    for x in (np.arange(30.0), np.arange(20.0, dtype=np.float32), np.arange(40.0).reshape(20, 2)):
        with pytest.raises(tg.GuardError):
            flat.play(x)


def test_a_branch_not_taken_does_not_warn() -> None:
    def f(x: Any) -> Any:
        out = np.zeros(N)
        for i in range(N):
            out[i] = np.log(x[i]) if x[i] > 0 else x[i]
        return np.sum(out)
    step = tg.value_and_grad(f, mode="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.ones(N), np.ones(N), np.ones(N), -np.ones(N), np.ones(N)):
            step(x)
