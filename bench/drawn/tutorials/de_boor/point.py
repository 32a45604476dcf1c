"""Points in the plane."""
import math


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __sub__(self, other):
        return Point(self.x - other.x, self.y - other.y)

    def __rmul__(self, factor):
        return Point(factor * self.x, factor * self.y)

    def __abs__(self):
        return math.hypot(self.x, self.y)

    def __iter__(self):
        yield from (self.x, self.y)
