"""Harvest of a fish population that keeps its growth."""
import numpy as np

from .growth import dominant, reproductive_value
from .life import density, leslie


def objective(fecundity, survival, harvest):
    kept = survival * (1 - harvest * np.array([0.2, 0.6, 1.0]))
    a = leslie(fecundity, kept)
    value, stable = dominant(a)
    n = 100 * stable
    caught = 0.0
    for year in range(8):
        caught = caught + (harvest * n[1:] * np.array([0.2, 0.6, 1.0])).sum()
        n = a @ n * density(n, 300.0)
    return np.log(value) + caught / 100 + 0.01 * reproductive_value(a) @ n


START = (np.array([0.0, 1.1, 1.9, 1.5]), np.array([0.55, 0.7, 0.6]), 0.15)
