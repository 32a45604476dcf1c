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
