"""The bore of an instrument: a list of ducts, and how it radiates."""
import math
from functools import reduce

from .elements import C, RHO, duct, multiply


class Bore:
    def __init__(self, radii, length):
        self.radii = list(radii)
        self.length = length

    def __iter__(self):
        step = self.length / len(self.radii)
        return ((step, r) for r in self.radii)

    def impedance(self, frequency):
        omega = 2 * math.pi * frequency
        matrix = reduce(multiply, (duct(length, r, omega) for length, r in self))
        end = self.radii[-1]
        ka = omega * end / C
        load = RHO * C / (math.pi * end ** 2) * complex(ka ** 2 / 4, 0.61 * ka)
        (a, b), (c, d) = matrix
        return (a * load + b) / (c * load + d)
