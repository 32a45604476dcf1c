"""Unit hydrographs."""
import itertools
import math


def s_curve(t, base):
    if t <= 0:
        return 0.0
    return (t / base) ** 2.5 if t < base else 1.0


class UnitHydrograph:
    def __init__(self, base):
        sums = [s_curve(t, base) for t in range(math.ceil(float(base)) + 1)]
        self.ordinates = [b - a for a, b in itertools.pairwise(sums)]
        self.waiting = [0.0] * len(self.ordinates)

    def step(self, water):
        self.waiting = [w + o * water for w, o in zip(self.waiting, self.ordinates)]
        first, *rest = self.waiting
        self.waiting = [*rest, 0.0]
        return first
