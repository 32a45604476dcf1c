"""Waves on a drum, recorded at a point."""
import numpy as np

from .fields import laplacian, pluck


def objective(c, x0):
    u = pluck(12, x0, 0.2)
    u_prev, u_next, record = u.copy(), np.zeros_like(u), []
    for _ in range(12):
        u_next[1:-1, 1:-1] = 2 * u[1:-1, 1:-1] - u_prev[1:-1, 1:-1] + (c * 0.5) ** 2 * laplacian(u)
        u_prev, u, u_next = u, u_next, u_prev
        record.append(u[6, 4])
    return np.sum(np.asarray(record) ** 2)


START = (0.8, 0.4)
