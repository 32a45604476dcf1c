"""The grid of a cavity."""
import numpy as np

N = 12
DX = DY = 2.0 / (N - 1)
DT, RHO = 0.001, 1.0


def fields():
    return np.zeros((N, N)), np.zeros((N, N)), np.zeros((N, N))
