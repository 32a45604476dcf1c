"""A mean field, iterated, and the energy of spins in it."""
import numpy as np

from .lattice import neighbours, spins


def objective(J, h, beta):
    m = 0.1 * spins(6)
    for _ in range(20):
        m = 0.5 * m + 0.5 * np.tanh(beta * (J * neighbours(m) + h))
    entropy = -np.sum((1 + m) / 2 * np.log((1 + m) / 2) + (1 - m) / 2 * np.log((1 - m) / 2))
    return -J * np.sum(m * neighbours(m)) / 2 - h * m.sum() - entropy / beta


START = (0.5, 0.2, 0.4)
