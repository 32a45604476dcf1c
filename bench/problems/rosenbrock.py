"""Rosenbrock's function: slices of one array, each used more than once."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(x: Any) -> Any:
    """Return the sum of 100 (x[i+1] - x[i]²)² + (1 - x[i])²."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def make(n: int, seed: int = 0) -> Data:
    """Draw a point."""
    return {"x": np.random.default_rng(seed).standard_normal(n)}


def size_of(data: Data) -> Size:
    """Return the dimension."""
    return {"n": len(data["x"])}


PROBLEM = Problem("rosenbrock", objective, ("x",), make, {"n": 1000}, size_of,
                  behind="arithmetic is not contracted, as NumPy's is not, and a call checks what was read.")
