"""Spirals."""
import numpy as np

from .layers import Dense, ReLU, Softmax
from .network import Sequential, cross_entropy

rng = np.random.default_rng(0)
r = np.linspace(0.1, 1, 10)
X = np.vstack([np.c_[r * np.sin(4 * k + 4 * r), r * np.cos(4 * k + 4 * r)] for k in range(3)])
Y = np.repeat(np.arange(3), 10)


def objective(W1, b1, W2, b2):
    net = Sequential(Dense(W1, b1), ReLU(), Dense(W2, b2), Softmax())
    return cross_entropy(net.forward(X), Y) + 1e-3 * (np.sum(W1 * W1) + np.sum(W2 * W2))


START = (rng.normal(size=(2, 8)), 0.1 * rng.normal(size=8), rng.normal(size=(8, 3)), np.zeros(3))
