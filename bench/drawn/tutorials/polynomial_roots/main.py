"""Poles of a filter."""
from .laguerre import roots
from .polynomial import Polynomial


def objective(a, b, c):
    p = Polynomial(c, b, a, 1.0) * Polynomial(2.0, 1.0) + Polynomial(0.1, 0.0, a * b)
    poles = roots(p)
    return sum(abs(z) for z in poles) + poles[0].real + poles[-1].imag ** 2


START = (1.1, 2.3, 0.7)
