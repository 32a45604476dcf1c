"""Filling an array element by element, and reading it back: what O(n) in the program must cost O(n) in its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(x: Any) -> Any:
    """Return the sum of squares of u, where u[i] = u[i-1] / 2 + x[i], computed as one would with a loop."""
    u = np.zeros(len(x))
    u[0] = x[0]
    for i in range(1, len(x)):
        u[i] = u[i - 1] * 0.5 + x[i]
    return (u * u).sum()


def make(n: int, seed: int = 0) -> Data:
    """Draw x."""
    return {"x": np.random.default_rng(seed).standard_normal(n)}


def size_of(data: Data) -> Size:
    """Return the length."""
    return {"n": len(data["x"])}


PROBLEM = Problem("filling", objective, ("x",), make, {"n": 1000}, size_of,
                  sweep=tuple({"n": 10 ** power} for power in (3, 4, 5)),
                  sweep_peers=("tapegrad grad", "tapegrad replay", "autograd", "torch", "jax"),
                  behind="a few statements for each element, on Python's floats: native code for the rolled loop would "
                         "close it.")
