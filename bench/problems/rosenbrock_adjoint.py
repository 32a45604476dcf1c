"""The gradient of Rosenbrock's function by hand."""

from __future__ import annotations

import numpy as np


def gradient(x: np.ndarray) -> tuple[float, tuple[np.ndarray]]:
    """Return the value and gradient, from the two differences that both need."""
    low = x[:-1]
    a, b = x[1:] - low * low, 1.0 - low
    da = 200.0 * a
    dx = np.empty_like(x)
    dx[0] = 0.0
    dx[1:] = da
    dx[:-1] -= 2.0 * (low * da + b)
    return 100.0 * (a @ a) + b @ b, (dx,)
