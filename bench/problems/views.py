"""Updating an array through views of it, element by element: what O(n) in the program must cost O(n) in its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(x: Any) -> Any:
    """Return the sum of squares of u: its second half follows v[i] = v[i-1] / 2 + x[i], its first half is twice that; both are views."""
    u = np.zeros(2 * len(x))
    halves = u.reshape(2, -1)
    v = halves[1]
    v[0] = x[0]
    for i in range(1, len(x)):
        v[i] = v[i - 1] * 0.5 + x[i]
        halves[0, i] = halves[1, i] * 2.0
    return (u * u).sum()


def make(n: int, seed: int = 0) -> Data:
    """Draw x."""
    return {"x": np.random.default_rng(seed).standard_normal(n)}


def size_of(data: Data) -> Size:
    """Return the length."""
    return {"n": len(data["x"])}


PROBLEM = Problem("views", objective, ("x",), make, {"n": 1000}, size_of, repeats=3, sweep=tuple({"n": 10 ** power} for power in (3, 4, 5)),
                  peers=("tapegrad grad", "tapegrad replay"))
