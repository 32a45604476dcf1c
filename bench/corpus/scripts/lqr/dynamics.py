"""A cart."""
import numpy as np


def linearised(mass, friction, dt=0.1):
    A = np.eye(2)
    A[0, 1] = dt
    A[1, 1] = 1 - friction / mass * dt
    B = np.array([[0.0], [dt / mass]])
    return A, B
