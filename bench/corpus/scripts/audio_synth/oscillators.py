"""Waves."""
import numpy as np

RATE = 8000


def sine(freq, t):
    return np.sin(2 * np.pi * freq * t)


def fm(carrier, ratio, index, t):
    return np.sin(2 * np.pi * carrier * t + index * sine(carrier * ratio, t))
