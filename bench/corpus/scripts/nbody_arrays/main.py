"""A cluster of stars."""
import numpy as np

from .forces import acceleration, energy


def objective(mass, softening):
    np.random.seed(17)
    N = 6
    pos, vel = np.random.randn(N, 3), np.random.randn(N, 3)
    m = mass * np.ones((N, 1)) / N
    vel -= np.mean(m * vel, 0) / np.mean(m)
    acc = acceleration(pos, m, softening)
    pos_save = np.zeros((N, 3, 6))
    for i in range(5):
        vel += acc * 0.01 / 2.0
        pos += vel * 0.01
        acc = acceleration(pos, m, softening)
        vel += acc * 0.01 / 2.0
        pos_save[:, :, i + 1] = pos
    return energy(pos, vel, m) + np.sum(pos_save[:, 0, :])


START = (20.0, 0.1)
