"""Reach for a point, past an obstacle."""
import numpy as np

from .transforms import chain

LINKS = [(0.4, 0.0, np.pi / 2), (0.0, 0.5, 0.0), (0.0, 0.3, 0.1)]


def objective(q):
    cost, limit = 0.0, np.deg2rad([170, 120, 150])
    for n in range(1, len(LINKS) + 1):
        p = chain([(angle, *link) for angle, link in zip(q[:n], LINKS)])[:3, 3]
        distance = np.linalg.norm(p - [0.3, 0.3, 0.5])
        if distance < 0.4:
            cost += (0.4 - distance) ** 2 * 10
    return cost + np.sum((p - np.array([0.5, 0.2, 0.7])) ** 2) + np.sum(np.maximum(0, np.abs(q) - limit) ** 2)


START = (np.array([0.4, 0.5, -0.6]),)
