"""Verlet's steps of atoms in a box."""
import numpy as np

from .potential import forces


def objective(epsilon, sigma):
    x = np.array([[i, j, 0.1 * i * j] for i in range(2) for j in range(2)], dtype=float) * 1.2 + 0.3
    v = np.zeros_like(x)
    f, energy = forces(x, 4.0, epsilon, sigma)
    for _ in range(4):
        v += 0.5 * 0.01 * f
        x += 0.01 * v
        f, energy = forces(x, 4.0, epsilon, sigma)
        v += 0.5 * 0.01 * f
    return energy + 0.5 * np.sum(v**2)


START = (1.0, 1.0)
