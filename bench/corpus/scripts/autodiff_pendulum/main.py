"""A double pendulum."""
from math import cos, sin

from .integrators import REGISTRY


def derivatives(m1, m2, l1=1.0, l2=1.0, g=9.81):
    def f(t, y):
        a1, w1, a2, w2 = y
        d = a2 - a1
        den = (m1 + m2) * l1 - m2 * l1 * cos(d) ** 2
        dw1 = (m2 * l1 * w1**2 * sin(d) * cos(d) + m2 * g * sin(a2) * cos(d) + m2 * l2 * w2**2 * sin(d)
               - (m1 + m2) * g * sin(a1)) / den
        dw2 = (-m2 * l2 * w2**2 * sin(d) * cos(d)
               + (m1 + m2) * (g * sin(a1) * cos(d) - l1 * w1**2 * sin(d) - g * sin(a2))) / (den * l2 / l1)
        return w1, dw1, w2, dw2
    return f


def objective(m1, m2, angle):
    total = 0.0
    for name, step in sorted(REGISTRY.items()):
        y = [angle, 0.0, angle / 2, 0.0]
        for n in range(20):
            y = step(derivatives(m1, m2), n * 0.02, y, 0.02)
        total += y[0] + 0.5 * y[2]
    return total


START = (1.0, 0.8, 1.2)
