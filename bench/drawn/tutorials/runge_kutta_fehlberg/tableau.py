"""Embedded Runge-Kutta pairs."""
from dataclasses import dataclass, field
from fractions import Fraction as F


@dataclass(frozen=True)
class Tableau:
    name: str
    c: tuple
    a: tuple
    high: tuple
    low: tuple
    order: int = field(default=5)

    def floats(self):
        return ([float(x) for x in self.c], [[float(x) for x in row] for row in self.a],
                [float(x) for x in self.high], [float(x) for x in self.low])


FEHLBERG = Tableau(
    "Fehlberg 4(5)", (0, F(1, 4), F(3, 8), F(12, 13), 1, F(1, 2)),
    ((), (F(1, 4),), (F(3, 32), F(9, 32)), (F(1932, 2197), F(-7200, 2197), F(7296, 2197)),
     (F(439, 216), -8, F(3680, 513), F(-845, 4104)), (F(-8, 27), 2, F(-3544, 2565), F(1859, 4104), F(-11, 40))),
    (F(16, 135), 0, F(6656, 12825), F(28561, 56430), F(-9, 50), F(2, 55)),
    (F(25, 216), 0, F(1408, 2565), F(2197, 4104), F(-1, 5), 0))
