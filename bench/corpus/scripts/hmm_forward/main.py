"""The weather, from what one eats."""
import numpy as np

from .hmm import HMM


def normalised(x):
    return x / x.sum(axis=-1, keepdims=True)


def objective(pi, A, B):
    model = HMM(normalised(pi), normalised(A), normalised(B))
    obs = [0, 1, 2, 1, 0, 0, 2]
    return model.forward(obs)[1] + 0.5 * model.viterbi(obs)


START = (np.array([1.0, 2.0]), np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 2.0, 3.0], [3.0, 1.5, 1.0]]))
