"""Parts of a circuit, each of which stamps itself into the nodal equations."""
from abc import ABC, abstractmethod

import numpy as np


class Part(ABC):
    def __init__(self, plus, minus, value):
        self.plus, self.minus, self.value = plus, minus, value

    @abstractmethod
    def stamp(self, g, i, v):
        ...

    def conduct(self, g, conductance):
        for a, b, sign in ((self.plus, self.plus, 1), (self.minus, self.minus, 1),
                           (self.plus, self.minus, -1), (self.minus, self.plus, -1)):
            if a and b:
                g[a - 1, b - 1] += sign * conductance

    def inject(self, i, current):
        if self.plus:
            i[self.plus - 1] -= current
        if self.minus:
            i[self.minus - 1] += current

    def across(self, v):
        return (v[self.plus - 1] if self.plus else 0.0) - (v[self.minus - 1] if self.minus else 0.0)


class Resistor(Part):
    def stamp(self, g, i, v):
        self.conduct(g, 1 / self.value)


class Source(Part):
    def stamp(self, g, i, v):
        self.inject(i, -self.value)


class Diode(Part):
    VT = 0.02585

    def stamp(self, g, i, v):
        u = min(self.across(v), 0.8)
        current = self.value * np.expm1(u / self.VT)
        slope = self.value / self.VT * np.exp(u / self.VT)
        self.conduct(g, slope)
        self.inject(i, current - slope * u)
