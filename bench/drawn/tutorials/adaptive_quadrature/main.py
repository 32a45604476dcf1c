"""Length of an arc, and a peaked integral."""
import math

from .adaptive import integrate
from .rules import gauss


def peak(centre, width):
    def f(x):
        return 1.0 / (width * width + (x - centre) ** 2)
    return f


def objective(centre, width, a):
    area, panels = integrate(peak(centre, width), 0.0, 1.0)
    length = gauss(lambda t: math.sqrt((a * math.sin(t)) ** 2 + math.cos(t) ** 2), 0.0, math.pi / 2)
    assert panels > 1
    return area + length


START = (0.4, 0.2, 1.7)
