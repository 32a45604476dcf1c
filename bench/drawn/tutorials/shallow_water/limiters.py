"""Slope limiters, chosen by name."""
import numpy as np


def minmod(a, b):
    return np.where(a * b > 0, np.where(np.abs(a) < np.abs(b), a, b), 0.0)


def van_leer(a, b):
    product = a * b
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(product > 0, 2 * product / np.where(a + b == 0, 1.0, a + b), 0.0)


LIMITERS = {f.__name__: f for f in (minmod, van_leer)}
