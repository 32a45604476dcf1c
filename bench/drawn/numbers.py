"""What several lists need: a signal, sums of nested numbers, the only number of an array."""

from __future__ import annotations

import numpy as np

T = np.linspace(0.0, 1.0, 64)
WAVE = np.sin(2 * np.pi * 5 * T) + 0.3 * np.cos(2 * np.pi * 11 * T)


def total(x: object) -> object:
    """Return the sum of numbers of any nesting."""
    return sum(map(total, x)) if isinstance(x, (list, tuple)) else np.sum(x)  # type: ignore[call-overload]


def float_of(x: object) -> object:
    """Return the only number of an array, or a number itself."""
    return np.ravel(x)[0] if np.ndim(x) else x  # type: ignore[arg-type, call-overload]
