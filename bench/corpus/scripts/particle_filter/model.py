"""A growth model."""
import numpy as np


def transition(x, t, a):
    return a * x + 25.0 * x / (1.0 + x**2) + 8.0 * np.cos(1.2 * t)


def likelihood(y, x, sigma):
    return np.exp(-0.5 * ((y - x**2 / 20.0) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi)) + 1e-12
