"""The gradient of the Gaussian process by hand: Rasmussen and Williams, equation 5.9."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def gradient(amplitude: float, lengthscale: float, noise: float, x: Any, y: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the value and, with dK = (K⁻¹ - αα') / 2, the sums of dK ∘ ∂K/∂θ."""
    n = len(y)
    scaled = sum((column[:, None] - column) ** 2 for column in x.T)
    scaled *= -0.5 * math.exp(-2.0 * lengthscale)
    kernel = np.exp(scaled + 2.0 * amplitude)
    variance = math.exp(2.0 * noise)
    K = kernel.copy()
    K.flat[::n + 1] += variance
    logs = np.log(np.diag(np.linalg.cholesky(K)))
    inverse = np.linalg.inv(K)
    alpha = inverse @ y
    value = 0.5 * (y @ alpha) + logs.sum() + 0.5 * n * math.log(2 * math.pi)

    trace = 0.5 * (np.trace(inverse) - alpha @ alpha)
    inverse -= np.outer(alpha, alpha)
    kernel *= inverse  # becomes 2 dK ∘ kernel
    return value, (kernel.sum(), -np.vdot(kernel, scaled), 2.0 * variance * trace)
