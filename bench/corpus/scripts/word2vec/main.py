"""Skip-grams with negative samples."""
import random

import numpy as np

from .vocabulary import pairs

INDEX, PAIRS = pairs()


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def objective(U, V):
    random.seed(1)
    loss = 0.0
    for centre, context in PAIRS[:12]:
        negatives = [k for k in range(len(INDEX)) if k % 3 == centre % 3]
        loss -= np.log(sigmoid(np.dot(U[centre], V[context])))
        loss -= np.sum(np.log(sigmoid(-V[negatives] @ U[centre])))
    return loss / 12


START = (np.random.default_rng(0).normal(size=(len(INDEX), 4)), np.random.default_rng(1).normal(size=(len(INDEX), 4)))
