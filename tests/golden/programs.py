"""The programs whose tapes are printed in the golden files. Their lines are in these files: add at the end."""

from __future__ import annotations

from typing import Any

import numpy as np


def f(a: float, b: float) -> float:
    return a / (a + b*b)


SCALE = np.array([1.0, 2.0, 3.0])


def wave(x: Any, params: dict[str, float]) -> Any:
    y = np.sin(x) * SCALE
    if y.sum() > 0:
        y = y * params["gain"]
    return y.sum(), y


def dense(x: Any, w: Any, b: Any) -> Any:
    return np.tanh(x @ w + b)


def net(x: Any, layers: list[Any]) -> Any:
    for w, b in layers:
        x = dense(x, w, b)
    return x


def loss(layers: list[Any], x: Any, y: Any) -> Any:
    error = net(x, layers) - y
    return (error**2).mean()


def branch(x: float) -> float:
    y = x * 2 if x > 0 else x - 1
    return y + x


def steps(x: float) -> float:
    for _ in range(1000):
        x = x * 1.5 - x * x
        x = np.sin(x)
    return x


def swing(angle: float, speed: float) -> float:
    for i in range(1000):
        push = 0.1 * i if speed > 0 else 0.0
        speed = speed - 0.01 * (np.sin(angle) - push)
        angle = angle + 0.01 * speed
    return angle


def network(w1: Any, w2: Any, x: Any) -> Any:
    hidden = np.tanh(w1 @ x)
    return np.sum((w2 @ hidden) ** 2)
