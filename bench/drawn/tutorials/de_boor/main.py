"""Length and area of a curve with rational weights."""
from itertools import pairwise

from .basis import curve
from .point import Point


def objective(weights, height, t):
    control = [Point(0.0, 0.0), Point(1.0, height), Point(2.0, -0.5), Point(3.0, 1.0), Point(4.0, 0.2)]
    above = curve([float_weight * p for float_weight, p in zip(weights, control)])
    below = curve(list(weights))
    at = lambda s: (1 / below(s)) * above(s)
    points = [at(i / 12) for i in range(13)]
    length = sum(abs(q - p) for p, q in pairwise(points))
    x, y = at(t)
    return length + x * y


START = ([1.0, 0.8, 1.5, 1.2, 1.0], 1.4, 0.37)
