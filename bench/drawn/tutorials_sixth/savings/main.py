"""Consumption of a household that lives for some periods."""
import numpy as np

from .egm import policy
from .utility import crra

GRID = np.linspace(0.01, 6.0, 30) ** 1.2
HERMITE, WEIGHTS = np.polynomial.hermite_e.hermegauss(3)


def objective(beta, rate, gamma, sigma):
    shocks = np.exp(sigma * HERMITE - sigma ** 2 / 2)
    c, w = policy(6, GRID, beta=beta, rate=rate, gamma=gamma, shocks=shocks, weights=WEIGHTS / WEIGHTS.sum())
    cash, welfare = 1.53, 0.0
    for t in range(4):
        eaten = np.interp(cash, w, c)
        welfare += beta ** t * crra(eaten, gamma)
        cash = (cash - eaten) * (1 + rate) + 1.0
    return welfare


START = (0.95, 0.03, 2.1, 0.2)
