"""A spiral, by a small network."""
import numpy as np

from .odeint import integrate

rng = np.random.default_rng(0)


def objective(W1, W2):
    y, steps = integrate(lambda t, y: np.tanh(y**3 @ W1) @ W2, np.array([2.0, 0.5]), 0.0, 1.0)
    return np.sum((y - [1.0, 1.0]) ** 2) + 0 * steps


START = (0.3 * rng.normal(size=(2, 6)), 0.3 * rng.normal(size=(6, 2)))
