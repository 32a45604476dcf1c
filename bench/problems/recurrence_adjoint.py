"""The gradient of the scalar recurrence by hand: a loop forward, a loop back, on Python's own floats."""

from __future__ import annotations

from math import cos, sin


def gradient(x: float, r: float, iterations: int) -> tuple[float, tuple[float]]:
    """Keep each r on the way there, and add up dx on the way back."""
    orbit = []
    for _ in range(iterations):
        orbit.append(r)
        r = r * x - sin(r)
    dx, dr = 0.0, 1.0
    for at in reversed(orbit):
        dx += dr * at
        dr *= x - cos(at)
    return r, (dx,)
