"""Train on two batches."""
import numpy as np

from .data import batches
from .model import init, loss_fun


def objective(*weights):
    total, h = 0.0, np.zeros((6, 1))
    for inputs, targets in batches(5):
        loss, h = loss_fun(inputs, targets, h, *weights)
        total += loss
    return total


START = init(6)
