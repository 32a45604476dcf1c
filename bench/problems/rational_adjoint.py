"""The gradient of the rational function by hand."""

from __future__ import annotations


def gradient(a: float, b: float) -> tuple[float, tuple[float, float]]:
    """Return y = a/q, dy/da = (1 - y)/q and dy/db = -2by/q, where q = a + b²."""
    q = a + b * b
    y = a / q
    return y, ((1.0 - y) / q, -2.0 * b * y / q)
