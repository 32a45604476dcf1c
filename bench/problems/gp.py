"""A Gaussian process: the marginal likelihood of observations under a squared-exponential
kernel, by Cholesky factorisation.

C. E. Rasmussen, C. K. I. Williams: Gaussian processes for machine learning (2006), algorithm 2.1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(amplitude: Any, lengthscale: Any, noise: Any, x: Any, y: Any) -> Any:
    """Return minus the log marginal likelihood of `y` (n,) at `x` (n, d); the three parameters are logarithms."""
    n = len(y)
    squares = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)
    K = np.exp(2.0 * amplitude - 0.5 * squares * np.exp(-2.0 * lengthscale)) + np.exp(2.0 * noise) * np.eye(n)
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    return 0.5 * np.dot(y, alpha) + np.sum(np.log(np.diag(L))) + 0.5 * n * math.log(2 * math.pi)


def make(n: int, d: int, seed: int = 0) -> Data:
    """Draw points, and observe a smooth function of them with noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return {"amplitude": 0.1, "lengthscale": -0.2, "noise": -1.5, "x": x,
            "y": np.sin(2 * x).sum(axis=1) + 0.2 * rng.standard_normal(n)}


def size_of(data: Data) -> Size:
    """Return points and dimension."""
    return {"n": data["x"].shape[0], "d": data["x"].shape[1]}


PROBLEM = Problem("gp", objective, ("amplitude", "lengthscale", "noise"), make, {"n": 300, "d": 2}, size_of,
                  behind="half of the time is NumPy's cholesky, and the rule of it by blocks: LAPACK's own "
                         "factorisation takes a third of "
                         "what NumPy's takes with its copies.")
