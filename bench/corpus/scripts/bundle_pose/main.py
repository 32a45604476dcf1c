"""The pose of a camera."""
import numpy as np

from .camera import project

POINTS = np.random.default_rng(5).normal(size=(7, 3))
SEEN = project(POINTS, np.array([0.1, 0.2, -0.1]), np.array([0.0, 0.1, 5.0]), 2.0)


def objective(w, t, f):
    e = project(POINTS, w, t, f) - SEEN
    r2 = np.einsum("ij,ij->i", e, e)
    return np.sum(np.where(r2 < 0.01, r2, 2 * 0.1 * np.sqrt(r2) - 0.01))


START = (np.array([0.12, 0.15, -0.05]), np.array([0.1, 0.0, 5.5]), 2.1)
