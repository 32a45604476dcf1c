"""A rod whose conductivity has a step."""
import numpy as np

from .cycle import cycle


def objective(left, right, source):
    n = 16
    h = 1.0 / n
    a = np.where(np.arange(n) < n // 2, left, right)
    x = np.linspace(0.0, 1.0, n + 1)
    f = source * np.sin(np.pi * x)
    u = np.zeros(n + 1)
    for _ in range(6):
        u = cycle(u, f, a, h, gamma=2)
    return u.max() + h * u.sum()


START = (1.0, 2.5, 3.0)
