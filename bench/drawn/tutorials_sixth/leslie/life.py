"""Life tables of a population in age classes."""
import numpy as np


def leslie(fecundity, survival):
    n = len(fecundity)
    a = np.zeros((n, n))
    a[0, :] = fecundity
    for i, s in enumerate(survival):
        a[i + 1, i] = s
    return a


def density(n, capacity):
    return 1.0 / (1.0 + n.sum() / capacity)
