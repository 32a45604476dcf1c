"""A rational function of two numbers: nothing but the cost of a call."""

from __future__ import annotations

from typing import Any

from bench.problems.problem import Data, Problem, Size


def objective(a: Any, b: Any) -> Any:
    """Return a / (a + b²)."""
    return a / (a + b * b)


def make(seed: int = 0) -> Data:
    """Return a point, always the same."""
    return {"a": 2.0, "b": 3.0}


def size_of(data: Data) -> Size:
    """Return nothing: there is one size."""
    return {}


PROBLEM = Problem("rational", objective, ("a", "b"), make, {}, size_of,
                  behind="a call checks the types of its arguments.")
