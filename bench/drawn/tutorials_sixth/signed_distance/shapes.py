"""Signed distances, joined by smooth minima."""
from .vector import Vec


class Shape:
    def __or__(self, other):
        return Union(self, other)

    def normal(self, p, h=1e-4):
        steps = (Vec(h, 0, 0), Vec(0, h, 0), Vec(0, 0, h))
        return Vec(*(self(p + e) - self(p - e) for e in steps)).unit()


class Ball(Shape):
    def __init__(self, centre, radius):
        self.centre, self.radius = centre, radius

    def __call__(self, p):
        return abs(p - self.centre) - self.radius


class Floor(Shape):
    def __init__(self, height):
        self.height = height

    def __call__(self, p):
        return p.y - self.height


class Union(Shape):
    def __init__(self, one, other, k=0.2):
        self.one, self.other, self.k = one, other, k

    def __call__(self, p):
        a, b = self.one(p), self.other(p)
        h = max(self.k - abs(a - b), 0.0) / self.k
        return min(a, b) - h * h * self.k / 4
