"""The gradient of the perceptron by hand: backpropagation as in a textbook."""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, labels: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the value and the gradient by weights and biases."""
    n, rows = len(labels), np.arange(len(labels))
    h1 = x @ w1
    h1 += b1
    np.maximum(h1, 0.0, out=h1)
    h2 = h1 @ w2
    h2 += b2
    np.maximum(h2, 0.0, out=h2)
    scores = h2 @ w3
    scores += b3
    scores -= scores.max(axis=1, keepdims=True)
    p = np.exp(scores)
    total = p.sum(axis=1, keepdims=True)
    value = (np.log(total[:, 0]) - scores[rows, labels]).mean()

    p /= total  # becomes the cotangent of the scores: (softmax - one-hot) / n
    p[rows, labels] -= 1.0
    p /= n
    d2 = p @ w3.T
    d2 *= h2 > 0
    d1 = d2 @ w2.T
    d1 *= h1 > 0
    return value, (x.T @ d1, d1.sum(axis=0), h1.T @ d2, d2.sum(axis=0), h2.T @ p, p.sum(axis=0))
