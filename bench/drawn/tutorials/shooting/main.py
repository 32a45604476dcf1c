"""A hanging cable between two poles, and the temperature of a fin."""
import math

from .ode import solve
from .root import brent, secant


def cable(load, height):
    f = lambda x, y: (y[1], load * math.sqrt(1 + y[1] ** 2))
    end = lambda slope: solve(f, 0.0, 1.0, (0.0, slope), 10)[-1][1][0] - height
    slope = secant(end, -0.5, 0.2)
    return min(y[0] for _, y in solve(f, 0.0, 1.0, (0.0, slope), 10))


def fin(m, top):
    f = lambda x, y: (y[1], m * m * y[0] * abs(y[0]) ** 0.25)
    miss = lambda base: solve(f, 0.0, 1.0, (base, 0.0), 10)[-1][1][0] - top
    return brent(miss, 0.01, 2.0)


def objective(load, height, m, top):
    return cable(load, height) + fin(m, top)


START = (0.8, 0.15, 1.3, 1.0)
