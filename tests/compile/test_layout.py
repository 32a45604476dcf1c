"""Tables of many rows and few columns: compiled tapes keep them column by column, and compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.numpy.call_facts import ROWS
from tapegrad.compile.numpy.memory_plan import make_plan
from tests.harness.compare import same

N = ROWS + 88
RNG = np.random.default_rng(0)
ROW = RNG.integers(40, size=N)


def rotated(table: Any, points: Any, w: Any) -> Any:
    p = table[ROW] * w[:, None] - points
    length = np.sqrt(np.sum(p ** 2, axis=1, keepdims=True))
    q = p / length + np.cross(p, points) * np.sin(length)
    return np.sum(q[:, :2] / (1.0 + q[:, 2:] ** 2)) + np.sum((p @ p.T[:, :3]) ** 2)


def reshaped(table: Any, points: Any, w: Any) -> Any:
    p = np.exp(points * 0.1) * table[ROW]
    flat = p.reshape(-1)
    return np.sum(flat[::2] * flat[1::2]) + np.sum(p.ravel() ** 2) + np.sum(p.T.reshape(-1, 3)[0] * 2.0) + np.sum(p.reshape(N, 3, 1) ** 3)


def written(table: Any, points: Any, w: Any) -> Any:
    p = points * w[:, None]
    p[:, 0] = w * 2.0
    p[5] = p[6] * p[7]
    p[p > 0.5] *= 0.25
    q = np.sin(p)
    q[ROW] = q[ROW[::-1]] * 0.5
    return np.sum(p * q) + np.sum(q[:, 1] * w)


def written_through_a_reshape(table: Any, points: Any, w: Any) -> Any:
    p = np.sin(points) * w[:, None]
    flat = p.reshape(-1)
    flat[::3] = flat[1::3] * 2.0
    flat[7] = w[3]
    return np.sum(p * points) + np.sum(flat[2::5] ** 2)


@pytest.mark.parametrize("f", [rotated, reshaped, written, written_through_a_reshape])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tall_tables(f: Any, dtype: Any) -> None:
    step, run = tg.value_and_grad(f, argnums=None), tg.compile(f)
    for _ in range(4):
        args = [RNG.uniform(0.1, 1.0, shape).astype(dtype) for shape in ((40, 3), (N, 3), (N,))]
        same(step(*args), tg.grad(f, *args), 1e-9)
        same(run(*args), f(*[x.copy() for x in args]), 1e-9)
    tape = tg.optimise(tg.flatgrad(tg.trace(f, *args)[1]))
    turned = sum(storage.turned for storage in make_plan(tape).storage.values())
    assert turned == 0 if f is written_through_a_reshape else turned > 3
