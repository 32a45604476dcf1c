"""A drum's skin."""
import numpy as np


def laplacian(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def pluck(n, x0, width):
    grid = np.linspace(0, 1, n)
    return np.exp(-((grid[:, None] - x0) ** 2 + (grid[None] - 0.5) ** 2) / width**2)
