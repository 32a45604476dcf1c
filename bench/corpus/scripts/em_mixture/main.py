"""Through five steps of EM."""
import numpy as np

from .mixture import e_step, m_step

x = np.concatenate([np.random.default_rng(0).normal(-2, 1, 15), np.random.default_rng(1).normal(3, 0.8, 15)])


def objective(mu):
    pi, sigma = np.array([0.5, 0.5]), np.array([1.0, 1.0])
    for _ in range(3):
        pi, mu, sigma = m_step(x, e_step(x, pi, mu, sigma))
    return np.sum(mu**2) + np.sum(sigma) + pi[0]


START = (np.array([-1.0, 1.0]),)
