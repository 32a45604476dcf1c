"""A scalar recurrence: nothing but the cost of one recorded operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(x: Any, r: Any, iterations: int) -> Any:
    """Return r after `iterations` of r ← r x - sin r: three operations each."""
    for _ in range(iterations):
        r = r * x - np.sin(r)
    return r


def make(iterations: int, seed: int = 0) -> Data:
    """Return a point whose orbit stays bounded: it is drawn to a cycle of two, ±1.9."""
    return {"x": -0.5, "r": 1.0, "iterations": iterations}


def size_of(data: Data) -> Size:
    """Return the number of iterations."""
    return {"iterations": data["iterations"]}


PROBLEM = Problem("recurrence", objective, ("x",), make, {"iterations": 1000}, size_of,
                  sweep=tuple({"iterations": 10 ** power} for power in (3, 4, 5)), million={"iterations": 333_334},
                  sweep_peers=("tapegrad grad", "autograd"),
                  behind="the reverse loop calls cos one number at a time.")
