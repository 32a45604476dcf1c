"""Robertson's reactions."""
import numpy as np

from .implicit import jacobian, radau_step
from .kinetics import Mechanism

ROBERTSON = Mechanism("A -> B", "2 B -> B + C", "B + C -> A + C")


def objective(k1, k2, k3):
    f = lambda y: np.array(ROBERTSON.rates(y, (k1, k2, k3)))
    y, h = np.array([1.0, 0.0, 0.0]), 1e-3
    for _ in range(8):
        y = radau_step(f, y, h, jacobian(f, y))
        h *= 2
    return y[0] + 1e4 * y[1] + y[2]


START = (0.04, 3e3, 1e2)
