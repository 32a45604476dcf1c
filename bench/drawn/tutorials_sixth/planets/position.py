"""Positions from elements, by Kepler's equation."""
import math

import numpy as np

from .elements import at


def anomaly(m, e):
    big = m + e * math.sin(m)
    while True:
        change = (m - (big - e * math.sin(big))) / (1 - e * math.cos(big))
        big += change
        if abs(change) < 1e-14:
            return big


def rotation(axis, angle):
    c, s = np.cos(angle), np.sin(angle)
    return {"x": np.array([[1, 0, 0], [0, c, -s], [0, s, c]]), "z": np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])}[axis]


def heliocentric(planet, century):
    el = at(planet, century)
    m = math.radians((el.L - el.peri) % 360)
    big = anomaly(m, el.e)
    flat = np.array([el.a * (math.cos(big) - el.e), el.a * math.sqrt(1 - el.e ** 2) * math.sin(big), 0.0])
    omega, i, node = (math.radians(x) for x in (el.peri - el.node, el.i, el.node))
    return rotation("z", node) @ rotation("x", i) @ rotation("z", omega) @ flat
