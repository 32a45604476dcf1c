"""A multilayer perceptron with the cross-entropy of its classes: large matrix products (mlp32: in single precision)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of the classes `labels` (n,) of `x` (n, inputs), after two
    layers of rectified units.
    """
    h = np.maximum(x @ w1 + b1, 0.0)
    h = np.maximum(h @ w2 + b2, 0.0)
    scores = h @ w3 + b3
    scores = scores - np.max(scores, axis=1, keepdims=True)
    log_sum = np.log(np.sum(np.exp(scores), axis=1))
    return np.mean(log_sum - scores[np.arange(len(labels)), labels])


def make(batch: int, inputs: int, hidden: int, hidden2: int, classes: int, seed: int = 0,
         dtype: type = np.float64) -> Data:
    """Draw weights of He's scale, small biases, normal inputs and uniform classes."""
    rng = np.random.default_rng(seed)
    widths = (inputs, hidden, hidden2, classes)
    data: Data = {}
    for layer, (a, b) in enumerate(pairwise(widths), start=1):
        data[f"w{layer}"] = (rng.standard_normal((a, b)) * np.sqrt(2 / a)).astype(dtype)
        data[f"b{layer}"] = (rng.standard_normal(b) * 0.1).astype(dtype)
    return {**data, "x": rng.standard_normal((batch, inputs)).astype(dtype),
            "labels": rng.integers(classes, size=batch)}


def size_of(data: Data) -> Size:
    """Return the batch's size and the layers' widths."""
    return {"batch": len(data["x"]), "inputs": data["w1"].shape[0], "hidden": data["w1"].shape[1],
            "hidden2": data["w2"].shape[1], "classes": data["w3"].shape[1]}


PROBLEM = Problem("mlp", objective, ("w1", "b1", "w2", "b2", "w3", "b3"), make,
                  {"batch": 128, "inputs": 784, "hidden": 512, "hidden2": 256, "classes": 10}, size_of,
                  behind="matrix products are all of it; beyond them, the convention for ties of maximum takes a few "
                         "passes over masks, "
                         "and the labels' gradient is scattered by NumPy's add.at.")
SINGLE = replace(PROBLEM, name="mlp32", make=partial(make, dtype=np.float32), tolerance=1e-5)
"""The same in float32, where sums of hundreds of products differ by their order."""
