"""An American put between two nodes of the grid."""
import numpy as np

from .grid import Grid
from .psor import price


def objective(spot, strike, r, sigma):
    grid = Grid.uniform(200.0, 21, 0.5, 4)
    payoff = np.maximum(strike - grid.s, 0.0)
    v = price(grid, payoff, r, sigma)
    return np.interp(spot, grid.s, v)


START = (97.0, 103.0, 0.04, 0.3)
