"""The gradient of the elementwise chain by hand."""

from __future__ import annotations

import numpy as np


def gradient(x: np.ndarray) -> tuple[float, tuple[np.ndarray]]:
    """Return the value, and the derivative of y = exp(-x sin x) / q with q = 1 + x²: -y (sin x + x cos x + 2x / q)."""
    sine, q = np.sin(x), 1.0 + x * x
    y = np.exp(-(x * sine)) / q
    return y.sum(), (-y * (sine + x * np.cos(x) + 2.0 * x / q),)
