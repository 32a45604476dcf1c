"""loops: programs of long loops on small arrays, of which a GPU makes one kernel each."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tg

RUNS = 400
A = np.linspace(-0.4, 0.5, 20).reshape(4, 5)


def recurrence(x: Any, y: Any) -> Any:
    for _ in range(RUNS):
        y = y * x[0] - np.sin(y)
    return np.sum(y)


def network(x: Any, w: Any) -> Any:
    h, total = np.zeros(5), 0.0
    for i in range(RUNS):
        h = np.tanh(w @ np.concatenate((h, x))[:5] + A[i % 4])
        total = total + np.max(h ** 2) + np.mean(h * x[0])
    return total + h[0]


def matrices(x: Any, w: Any) -> Any:
    h = np.outer(x, x)
    for i in range(RUNS):
        h = np.tanh((w @ h).T) + 0.1 * h.sum(0) - (i * 0.001) * np.where(h > 0, h, 0.5 * h)
    return np.sum(h)


def long_sums(x: Any, w: Any) -> Any:
    y = np.ones(50)
    for _ in range(RUNS):
        y = y - 0.01 * (np.sum(y * y) * x[1] + np.sqrt(np.abs(y) + 1.0)) / (1.0 + np.exp(-x[2] * np.mean(y)))
    return np.sum(y)


def elements(x: Any, w: Any) -> Any:
    a, b, c = x[0], x[1], x[2]
    for i in range(RUNS):
        a, b, c = a + 0.01 * (b - a), b + 0.01 * (a * (1.5 - c) - b), c + 0.01 * (a * b - c) + 1e-4 * x[i % 5]
    return a * b * c


def filling(x: Any, w: Any) -> Any:
    y = np.zeros(RUNS)
    y[0] = x[0]
    for i in range(1, RUNS):
        y[i] = 0.9 * y[i - 1] + x[1] * np.sin(x[2] * i * 0.01)
    return np.sum(y * y)


def backwards(x: Any, w: Any) -> Any:
    y = x[:4]
    for i in range(RUNS - 1, -1, -1):
        y = np.hypot(y.reshape(2, 2).T.ravel(), 0.5) * 0.9 + np.stack((x, w[i % 5])).mean(axis=0)[1:]
    return np.sum(y)


def minima(x: Any, w: Any) -> Any:
    y = x
    for _ in range(RUNS):
        y = np.minimum(np.maximum(y * 1.1, -1.0), w[0]) + np.log1p(np.abs(y[1:3]).sum())
    return np.sum(y)


PROGRAMS = [recurrence, network, matrices, long_sums, elements, filling, backwards, minima]
ARGS = np.linspace(0.2, 0.7, 5), np.cos(np.arange(25.0)).reshape(5, 5) * 0.3


def tape_of(f: Any, dtype: Any = np.float64) -> tg.Tape:
    """Return the flat gradient tape of a program, with its loops."""
    return tg.flatgrad(tg.roll(tg.trace(f, *[x.astype(dtype) for x in ARGS])[1]))
