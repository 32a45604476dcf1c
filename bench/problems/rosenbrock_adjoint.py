"""The gradient of Rosenbrock's function by hand."""

from __future__ import annotations

import numpy as np


def gradient(x: np.ndarray) -> tuple[float, tuple[np.ndarray]]:
    """Return the value and gradient, from the two differences that both need."""
    low = x[:-1]
    a, b = x[1:] - low * low, 1.0 - low
    dx = np.zeros_like(x)
    dx[:-1] = -400.0 * (low * a) - 2.0 * b
    dx[1:] += 200.0 * a
    return 100.0 * (a @ a) + b @ b, (dx,)
