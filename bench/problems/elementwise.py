"""A chain of elementwise functions of a long array: nothing but memory and the functions themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(x: Any) -> Any:
    """Return the sum of exp(-x sin x) / (1 + x²): seven functions of each element."""
    return np.sum(np.exp(-(x * np.sin(x))) / (1.0 + x * x))


def make(n: int, seed: int = 0) -> Data:
    """Draw x."""
    return {"x": np.random.default_rng(seed).standard_normal(n)}


def size_of(data: Data) -> Size:
    """Return the length."""
    return {"n": len(data["x"])}


PROBLEM = Problem("elementwise", objective, ("x",), make, {"n": 10 ** 7}, size_of,
                  behind="a result of 80 MB in new memory each time: clearing its pages takes as long as the "
                         "functions.")
