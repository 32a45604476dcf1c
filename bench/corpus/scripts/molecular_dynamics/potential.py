"""Lennard and Jones."""
import numpy as np


def forces(x, box, epsilon, sigma):
    n = len(x)
    f, energy = np.zeros_like(x), 0.0
    for i in range(n):
        for j in range(i + 1, n):
            d = x[i] - x[j]
            d -= box * np.round(d / box)
            r2 = np.dot(d, d)
            if r2 < (box / 2) ** 2:
                s6 = (sigma**2 / r2) ** 3
                energy += 4 * epsilon * (s6**2 - s6)
                pair = 24 * epsilon * (2 * s6**2 - s6) / r2 * d
                f[i] += pair
                f[j] -= pair
    return f, energy
