"""Natural and clamped cubic splines."""
from bisect import bisect_right
from enum import Enum

import numpy as np

from .tridiagonal import thomas


class End(Enum):
    NATURAL = "natural"
    CLAMPED = "clamped"


class CubicSpline:
    def __init__(self, x, y, end=End.NATURAL, slopes=(0.0, 0.0)):
        self.x, self.y = np.asarray(x, float), np.asarray(y, float)
        h = np.diff(self.x)
        if (h <= 0).any():
            raise ValueError("knots must increase")
        n = len(self.x)
        lower, diagonal, upper, rhs = np.zeros(n - 1), np.ones(n), np.zeros(n - 1), np.zeros(n)
        steps = np.diff(self.y) / h
        lower[:-1], upper[1:] = h[:-1], h[1:]
        diagonal[1:-1] = 2 * (h[:-1] + h[1:])
        rhs[1:-1] = 6 * np.diff(steps)
        if end is End.CLAMPED:
            diagonal[0], upper[0], rhs[0] = 2 * h[0], h[0], 6 * (steps[0] - slopes[0])
            diagonal[-1], lower[-1], rhs[-1] = 2 * h[-1], h[-1], 6 * (slopes[1] - steps[-1])
        self.m, self.h = thomas(lower, diagonal, upper, rhs), h

    def __call__(self, t):
        i = min(max(bisect_right(self.x, t) - 1, 0), len(self.h) - 1)
        a, b, h = self.x[i + 1] - t, t - self.x[i], self.h[i]
        return ((self.m[i] * a ** 3 + self.m[i + 1] * b ** 3) / (6 * h)
                + (self.y[i] / h - self.m[i] * h / 6) * a + (self.y[i + 1] / h - self.m[i + 1] * h / 6) * b)

    @property
    def bending(self):
        return float(np.sum(self.h / 3 * (self.m[:-1] ** 2 + self.m[:-1] * self.m[1:] + self.m[1:] ** 2)))
