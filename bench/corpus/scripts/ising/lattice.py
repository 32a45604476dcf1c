"""Spins."""
import numpy as np


def spins(n):
    return np.where(np.random.RandomState(4).rand(n, n) < 0.5, -1, 1)


def neighbours(s):
    return np.roll(s, 1, 0) + np.roll(s, -1, 0) + np.roll(s, 1, 1) + np.roll(s, -1, 1)
