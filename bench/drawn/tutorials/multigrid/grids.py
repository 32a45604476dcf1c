"""Transfer between grids."""
import numpy as np


def restrict(fine):
    coarse = np.zeros((len(fine) + 1) // 2)
    coarse[1:-1] = 0.25 * fine[1:-2:2] + 0.5 * fine[2:-1:2] + 0.25 * fine[3::2]
    return coarse


def prolong(coarse):
    fine = np.zeros(2 * len(coarse) - 1)
    fine[::2] = coarse
    fine[1::2] = 0.5 * (coarse[:-1] + coarse[1:])
    return fine
