"""The trace of a product of two small matrices: few calls, little arithmetic in each."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(a: Any, b: Any) -> Any:
    """Return the trace of a b."""
    return np.trace(a @ b)


def make(n: int, seed: int = 0) -> Data:
    """Draw two square matrices."""
    rng = np.random.default_rng(seed)
    return {"a": rng.standard_normal((n, n)), "b": rng.standard_normal((n, n))}


def size_of(data: Data) -> Size:
    """Return the number of rows."""
    return {"n": len(data["a"])}


PROBLEM = Problem("tr_mul", objective, ("a", "b"), make, {"n": 30}, size_of,
                  behind="a call checks the types and shapes of its arguments, a third of its time.")
