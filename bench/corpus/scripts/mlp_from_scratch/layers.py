"""Layers as classes."""
import numpy as np


class Dense:
    def __init__(self, W, b):
        self.W, self.b = W, b

    def __call__(self, x):
        self.input = x
        return x @ self.W + self.b


class ReLU:
    def __call__(self, x):
        self.mask = x > 0
        return x * self.mask


class Softmax:
    def __call__(self, x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
