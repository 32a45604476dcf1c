"""Vectors of three numbers with operators."""
import math


class Vec:
    __slots__ = ("x", "y", "z")

    def __init__(self, x=0.0, y=0.0, z=0.0):
        self.x, self.y, self.z = x, y, z

    def __iter__(self):
        yield from (self.x, self.y, self.z)

    def __add__(self, other):
        return Vec(*(a + b for a, b in zip(self, other)))

    def __sub__(self, other):
        return Vec(*(a - b for a, b in zip(self, other)))

    def __mul__(self, k):
        return Vec(*(a * k for a in self))

    __rmul__ = __mul__

    def dot(self, other):
        return sum(a * b for a, b in zip(self, other))

    def __abs__(self):
        return math.sqrt(self.dot(self))

    def unit(self):
        return self * (1 / abs(self))
