"""A clipper with two diodes."""
from .components import Diode, Resistor, Source
from .solve import operating_point


def objective(r1, r2, saturation):
    out = 0.0
    for current in (-0.004, 0.001, 0.006):
        parts = [Source(1, 0, current), Resistor(1, 0, 2e3), Resistor(1, 2, r1), Resistor(2, 3, r2),
                 Diode(2, 0, saturation * 1e-12), Diode(0, 3, 2e-12), Resistor(3, 0, 5e4)]
        v = operating_point(parts, 3)
        out += (v[1] - v[2]) * current * 1e3 + v[2] ** 2
    return out


START = (1e3, 470.0, 1.4)
