"""One plan of a model predictive controller."""
import numpy as np

from .cost import plan_cost
from .plant import Bicycle

PATH = np.column_stack([np.linspace(0.5, 4.0, 8), np.sin(np.linspace(0.0, 1.0, 8))])


def objective(controls, start):
    return plan_cost(Bicycle(0.2), start, controls, PATH)


START = (np.full((8, 2), 0.1) + 0.01 * np.arange(16.0).reshape(8, 2), np.array([0.0, 0.1, 0.0, 1.5]))
