"""Burgers' equation, cell by cell: step four of twelve."""
import numpy as np

from .initial import saw_tooth, x


def objective(nu):
    dx, nt = x[1] - x[0], 15
    dt = dx * nu
    u = saw_tooth(nu)
    for n in range(nt):
        un = u.copy()
        for i in range(1, len(x) - 1):
            u[i] = un[i] - un[i] * dt / dx * (un[i] - un[i - 1]) + nu * dt / dx**2 * (un[i + 1] - 2 * un[i] + un[i - 1])
        u[0] = un[0] - un[0] * dt / dx * (un[0] - un[-2]) + nu * dt / dx**2 * (un[1] - 2 * un[0] + un[-2])
        u[-1] = u[0]
    return np.sum(u**2)


START = (0.07,)
