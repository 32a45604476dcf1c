"""The rate of a decay, from measurements."""
import numpy as np

from .fit import fit
from .problem import Decay

TIME = np.linspace(0.0, 4.0, 9)


def objective(y):
    p, cost = fit(Decay(), TIME, y, np.array([1.0, 1.0, 0.0]))
    return p[1] + 0.1 * p[0] + np.sqrt(cost)


START = (2.0 * np.exp(-0.8 * TIME) + 0.3 + 0.05 * np.cos(5 * TIME),)
