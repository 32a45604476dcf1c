"""Poisson's equation for the pressure."""
import numpy as np

from .grid import DT, DX, DY, RHO


def build_up_b(b, u, v):
    b[1:-1, 1:-1] = RHO * (1 / DT * ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * DX)
                                     + (v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * DY)))
    return b


def pressure_poisson(p, b, iterations=10):
    pn = np.empty_like(p)
    for _ in range(iterations):
        pn = p.copy()
        p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, 0:-2]) * DY**2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * DX**2) / (2 * (DX**2 + DY**2)) - DX**2 * DY**2 / (2 * (DX**2 + DY**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0
    return p
