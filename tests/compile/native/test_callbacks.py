"""Calls without native code in a loop: calls into Python within the loop's machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.native.backend import NativeFunction

STEPS = 40
AT = np.linspace(0.0, 1.0, 9)


def interpolated(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.interp(np.abs(x) / (1.0 + np.abs(x)), AT, AT * AT + 0.5) + 0.1 * x
    return np.sum(x)


def convolved(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.convolve(x, AT[:3], mode="same") + 0.1
    return np.sum(x * x)


def sorted_(x: Any) -> Any:
    for k in range(STEPS):
        x = np.sort(x * 0.9 + np.sin(x + k))
    return np.sum(x * np.arange(len(x)))


def solved(x: Any) -> Any:
    a = np.eye(len(x)) * 3.0
    for _ in range(STEPS):
        x = np.linalg.solve(a + np.outer(x, x), 2.0 * x + 1.0)
    return np.sum(x)


def split(x: Any) -> Any:
    """A call that returns several arrays, in a loop."""
    a, total = np.outer(x[:4], x[:4]) + np.diag(np.arange(1.0, 5.0)), 0.0
    for k in range(STEPS):
        values, vectors = np.linalg.eigh(a + k * np.eye(4))
        total = total + np.sum(np.sqrt(values)) + np.sum(vectors[:, 0] ** 2 * values)
    return total


@pytest.mark.parametrize("size", [7, 30])
@pytest.mark.parametrize("f", [interpolated, convolved, sorted_, solved, split])
def test_a_loop_stays_machine_code(f: Callable[..., Any], size: int) -> None:
    step = tg.value_and_grad(f, warmup=1)
    for k in range(5):
        x = np.random.default_rng(k).uniform(0.2, 1.0, size)
        value, dx = step(x)
        expected, (_, exact) = tg.grad(f, x)
        assert value == pytest.approx(expected, rel=1e-12) and np.allclose(dx, exact, rtol=1e-9, atol=1e-12)
    (entry,) = step._entries[1]
    assert step.stats.hits == 4 and isinstance(entry.run, NativeFunction) and not entry.run.straight.calls


def test_an_error_in_such_a_call_is_the_programs() -> None:
    def f(x: Any) -> Any:
        a = np.eye(3)
        for _ in range(STEPS):
            a = np.linalg.inv(a * x) + np.eye(3)
        return np.sum(a)
    step = tg.value_and_grad(f, warmup=1)
    for x in (2.0, 3.0, 4.0):
        step(x)
    with pytest.raises(np.linalg.LinAlgError):
        step(0.0)
    assert step(2.0)[0] == pytest.approx(f(2.0), rel=1e-12)
