"""Penalised fit, and how one patient fares."""
import numpy as np

from .cox import partial_likelihood, survival_at
from .data import load

TIME, EVENT, X = load()


def objective(beta, penalty):
    fit = partial_likelihood(beta, TIME, EVENT, X)
    return -fit + penalty * np.sum(np.abs(beta) ** 1.5) - np.log(survival_at(8.0, beta, TIME, EVENT, X, 3))


START = (np.array([0.4, -0.6, 0.5]), 0.3)
