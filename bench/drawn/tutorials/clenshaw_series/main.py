"""Where and when a moon is nearest to a point."""
import math

from .ephemeris import read
from .series import Series


def golden(f, a, b, tol=1e-7):
    ratio = (math.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    while b - a > tol:
        if f(c) < f(d):
            b, d = d, c
            c = b - ratio * (b - a)
        else:
            a, c = c, d
            d = a + ratio * (b - a)
    return (a + b) / 2


def objective(px, py, period, scale):
    table = read()
    x, y = Series(table["x"], scale), Series(table["y"])
    distance = lambda t: math.dist((x(2 * math.pi * t / period), y(2 * math.pi * t / period)), (px, py))
    coarse = min((0.1 * i for i in range(20)), key=distance)
    return distance(golden(distance, coarse - 0.1, coarse + 0.1))


START = (2.1, 0.9, 1.9, 1.3)
