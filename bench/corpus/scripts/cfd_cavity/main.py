"""Flow in a cavity whose lid moves: step eleven of twelve."""
import numpy as np

from .grid import DT, DX, DY, RHO, fields
from .pressure import build_up_b, pressure_poisson


def cavity_flow(nt, u, v, p, lid, nu):
    b = np.zeros_like(p)
    for _ in range(nt):
        un, vn = u.copy(), v.copy()
        b = build_up_b(b, u, v)
        p = pressure_poisson(p, b)
        u[1:-1, 1:-1] = (un[1:-1, 1:-1] - un[1:-1, 1:-1] * DT / DX * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
                         - DT / (2 * RHO * DX) * (p[1:-1, 2:] - p[1:-1, 0:-2])
                         + nu * DT / DX**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, 0:-2]))
        v[1:-1, 1:-1] = (vn[1:-1, 1:-1] - DT / (2 * RHO * DY) * (p[2:, 1:-1] - p[0:-2, 1:-1])
                         + nu * DT / DY**2 * (vn[2:, 1:-1] - 2 * vn[1:-1, 1:-1] + vn[0:-2, 1:-1]))
        u[0, :] = 0
        u[-1, :] = lid
        v[:, 0] = v[:, -1] = 0
    return u, v, p


def objective(lid, nu):
    u, v, p = cavity_flow(8, *fields(), lid, nu)
    return np.sum(u**2 + v**2) + 1e-3 * np.sum(p)


START = (1.0, 0.1)
