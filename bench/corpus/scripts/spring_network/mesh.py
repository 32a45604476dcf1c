"""Cloth."""
import itertools

import numpy as np


class Cloth:
    def __init__(self, n, k, rest=1.0):
        self.n, self.k, self.rest = n, k, rest
        self.pos = np.array([[i, 0.0, j] for i, j in itertools.product(range(n), repeat=2)], dtype=np.float64)
        self.vel = np.zeros_like(self.pos)
        self.springs = [(i * n + j, i2 * n + j2) for i in range(n) for j in range(n)
                        for i2, j2 in ((i + 1, j), (i, j + 1)) if i2 < n and j2 < n]

    @property
    def stretch(self):
        i, j = np.array(self.springs).T
        return np.linalg.norm(self.pos[i] - self.pos[j], axis=1) - self.rest

    def forces(self, gravity):
        f = np.tile([0.0, -gravity, 0.0], (len(self.pos), 1))
        i, j = np.array(self.springs).T
        d = self.pos[j] - self.pos[i]
        length = np.sqrt((d * d).sum(1, keepdims=True))
        pull = self.k * (length - self.rest) * d / length
        np.add.at(f, i, pull)
        np.subtract.at(f, j, pull)
        return f
