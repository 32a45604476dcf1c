"""Chemical equilibrium of three species."""
import math

from .newton import newton


def equilibrium(k1, k2, total):
    def f(x):
        a, b, c = x
        return [a * a - k1 * b, b * c - k2 * a, a + 2 * b + c - total]

    def jacobian(x):
        a, b, c = x
        return [[2 * a, -k1, 0.0], [-k2, c, b], [1.0, 2.0, 1.0]]
    return newton(f, [0.6, 0.4, 0.5], jacobian)


def objective(k1, k2, total):
    a, b, c = equilibrium(k1, k2, total)
    return math.log(a) + 2.0 * b - c * c


START = (0.8, 0.3, 2.0)
