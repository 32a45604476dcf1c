"""V- and W-cycles for -(a u')' = f with u = 0 at both ends."""
import numpy as np

from .grids import prolong, restrict


def residual(u, f, a, h):
    r = np.zeros_like(u)
    flux = a * np.diff(u) / h
    r[1:-1] = f[1:-1] + np.diff(flux) / h
    return r


def smooth(u, f, a, h, sweeps):
    for _ in range(sweeps):
        for i in range(1, len(u) - 1):
            u[i] = (a[i - 1] * u[i - 1] + a[i] * u[i + 1] + h * h * f[i]) / (a[i - 1] + a[i])
    return u


def cycle(u, f, a, h, gamma=1):
    if len(u) <= 3:
        return smooth(u, f, a, h, 1)
    smooth(u, f, a, h, 2)
    coarse = restrict(residual(u, f, a, h))
    e = np.zeros_like(coarse)
    for _ in range(gamma):
        e = cycle(e, coarse, 0.5 * (a[::2] + a[1::2]), 2 * h, gamma)
    u += prolong(e)
    return smooth(u, f, a, h, 2)
