"""Greeks of exotic options by the pathwise method."""
import numpy as np

from .options import Asian, Basket, Lookback
from .paths import simulate


def objective(S0, sigma, r):
    paths = simulate(S0, r, sigma, 1.0, 6, 50)
    return np.exp(-r) * np.mean(sum(option.payoff(paths) for option in (Asian(100), Lookback(None), Basket(105.0))))


START = (101.0, 0.2, 0.03)
