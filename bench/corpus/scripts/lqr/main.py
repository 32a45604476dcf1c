"""The cost of a linear quadratic regulator."""
import numpy as np

from .dynamics import linearised
from .riccati import gains


def objective(mass, friction, q):
    A, B = linearised(mass, friction)
    Ks, P = gains(A, B, np.diag([q, 0.1]), np.array([[0.01]]), 15)
    x, cost = np.array([1.0, 0.0]), 0.0
    for K in Ks:
        u = -K @ x
        cost += x @ np.diag([q, 0.1]) @ x + 0.01 * float(1) * u @ u
        x = A @ x + B @ u
    return cost + np.trace(P)


START = (1.5, 0.3, 1.0)
