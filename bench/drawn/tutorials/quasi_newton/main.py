"""Where a logistic regression with a ridge has its minimum."""
import numpy as np

from .bfgs import minimise

X = np.array([[1.0, 0.2], [1.0, -0.7], [1.0, 1.3], [1.0, 0.9], [1.0, -1.6], [1.0, 0.1]])
LABELS = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])


def losses(x, ridge, weights):
    def f(w):
        z = x @ w
        return np.sum(weights * (np.logaddexp(0, z) - LABELS * z)) + 0.5 * ridge * w @ w

    def df(w):
        p = 1 / (1 + np.exp(-(x @ w)))
        return x.T @ (weights * (p - LABELS)) + ridge * w
    return f, df


def objective(ridge, weights):
    w = minimise(*losses(X, ridge, weights), np.zeros(2))
    return w[0] + 2 * w[1]


START = (0.5, np.ones(6))
