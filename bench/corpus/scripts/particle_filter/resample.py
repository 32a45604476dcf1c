"""Systematic resampling."""
import numpy as np


def systematic(weights, u):
    n = len(weights)
    return np.searchsorted(np.cumsum(weights), (np.arange(n) + u) / n).clip(0, n - 1)
