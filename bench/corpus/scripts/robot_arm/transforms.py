"""Denavit and Hartenberg."""
from functools import reduce

import numpy as np


def dh(theta, d, a, alpha):
    ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    return np.array([[ct, -st * ca, st * sa, a * ct], [st, ct * ca, -ct * sa, a * st], [0, sa, ca, d], [0, 0, 0, 1]])


def chain(rows):
    return reduce(np.matmul, (dh(*row) for row in rows))
