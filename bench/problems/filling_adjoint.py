"""The gradient of the filling of an array by hand: two loops over Python's own floats."""

from __future__ import annotations

import numpy as np


def gradient(x: np.ndarray) -> tuple[float, tuple[np.ndarray]]:
    """Run the recurrence u[i] = u[i-1] / 2 + x[i] there, and du[i] = 2u[i] + du[i+1] / 2 back."""
    u, at = [], 0.0
    for value in x.tolist():
        at = at * 0.5 + value
        u.append(at)
    total, at, dx = 0.0, 0.0, []
    for value in reversed(u):
        total += value * value
        at = at * 0.5 + 2.0 * value
        dx.append(at)
    dx.reverse()
    return total, (np.array(dx),)
