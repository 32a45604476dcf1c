"""Hermite beam elements."""
from dataclasses import dataclass

import numpy as np


@dataclass
class Section:
    b: float
    h: float

    @property
    def inertia(self):
        return self.b * self.h ** 3 / 12


@dataclass
class Element:
    first: int
    second: int
    length: float
    e: float
    section: Section

    def stiffness(self):
        l, ei = self.length, self.e * self.section.inertia
        return ei / l ** 3 * np.array([[12, 6 * l, -12, 6 * l], [6 * l, 4 * l ** 2, -6 * l, 2 * l ** 2],
                                       [-12, -6 * l, 12, -6 * l], [6 * l, 2 * l ** 2, -6 * l, 4 * l ** 2]])

    def load(self, q):
        l = self.length
        return q * l / 2 * np.array([1, l / 6, 1, -l / 6])

    @property
    def dofs(self):
        return [2 * self.first, 2 * self.first + 1, 2 * self.second, 2 * self.second + 1]
