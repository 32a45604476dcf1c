"""ADBench's Gaussian mixture: the log-likelihood of points, with a Wishart prior on the components' precisions.

F. Srajer, Z. Kukelova, A. Fitzgibbon: A benchmark of selected algorithmic differentiation tools on some problems in
computer vision and machine learning (2018), arXiv 1807.10129.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> Any:
    """Return the log-likelihood of n points `x` (n, d) under K Gaussians, plus the log of their prior.

    Weights are softmax(`alphas`), `means` (K, d). A row of `icf` (K, d(d+1)/2) holds a lower triangular Q with
    precision QᵀQ: the logarithms of its diagonal, then what is below, column by column. `gamma` and `m` are the Wishart
    distribution's.
    """
    (n, d), K = x.shape, len(means)
    qs, below = icf[:, :d], icf[:, d:]
    diagonal, sum_qs = np.exp(qs), np.sum(qs, axis=1)
    centred = x.T - means[:, :, None]  # (K, d, n)
    distance = np.sum((factors(diagonal, below) @ centred) ** 2, axis=1)  # (K, n)
    likelihood = np.sum(logsumexp((alphas + sum_qs)[:, None] - 0.5 * distance)) - n * logsumexp(alphas)
    frobenius = np.sum(diagonal ** 2) + np.sum(below ** 2)
    prior = 0.5 * gamma ** 2 * frobenius - m * np.sum(sum_qs) - K * wishart_constant(d, gamma, int(m))
    return likelihood - n * d * 0.5 * math.log(2 * math.pi) + prior


def factors(diagonal: Any, below: Any) -> Any:
    """Return the triangular matrices Q (K, d, d), gathered from their diagonals, the entries below, and a zero."""
    K, d = diagonal.shape
    row, column = np.arange(d)[:, None], np.arange(d)
    at = d + column * (2 * d - column - 1) // 2 + row - column - 1
    index = np.where(row == column, column, np.where(row > column, at, d * (d + 1) // 2))
    return np.concatenate([diagonal, below, np.zeros((K, 1))], axis=1)[:, index]


def logsumexp(x: Any) -> Any:
    """Return log(sum(exp(x))) over the first axis."""
    top = np.max(x, axis=0)
    return top + np.log(np.sum(np.exp(x - top), axis=0))


def wishart_constant(d: int, gamma: float, m: int) -> Any:
    """Return the log of the Wishart distribution's constant for one component."""
    degrees = d + m + 1
    return degrees * d * (np.log(gamma) - 0.5 * math.log(2)) - log_gamma_distrib(0.5 * degrees, d)


def log_gamma_distrib(a: float, p: int) -> float:
    """Return the log of the multivariate gamma function."""
    return 0.25 * p * (p - 1) * math.log(math.pi) + sum(math.lgamma(a - 0.5 * j) for j in range(p))


def make(d: int, K: int, n: int, seed: int = 0) -> Data:
    """Draw data as ADBench does: uniform means, the rest normal."""
    rng = np.random.default_rng(seed)
    return {"alphas": rng.standard_normal(K), "means": rng.random((K, d)),
            "icf": rng.standard_normal((K, d * (d + 1) // 2)),
            "x": rng.standard_normal((n, d)), "gamma": 1.0, "m": 0}


def read(path: Path) -> Data:
    """Read ADBench's text format: `d K n`; alphas, means, inverse covariance factors, points, one row each; `gamma m`.

    Raises ValueError for a file of another length, such as one whose only point stands for n equal ones.
    """
    numbers = np.array(Path(path).read_text().split(), float)
    d, K, n = map(int, numbers[:3])
    shapes = {"alphas": (K,), "means": (K, d), "icf": (K, d * (d + 1) // 2), "x": (n, d)}
    ends = np.cumsum([3] + [math.prod(shape) for shape in shapes.values()])
    if len(numbers) != ends[-1] + 2:
        raise ValueError(f"{path}: d={d}, K={K}, n={n} need {ends[-1] + 2} numbers, and the file has {len(numbers)}")
    parts = np.split(numbers, ends)[1:]
    data: Data = {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts)}
    return {**data, "gamma": float(parts[-1][0]), "m": int(parts[-1][1])}


def size_of(data: Data) -> Size:
    """Return dimension, components, points."""
    return {"d": data["means"].shape[1], "K": data["means"].shape[0], "n": data["x"].shape[0]}


PROBLEM = Problem("gmm", objective, ("alphas", "means", "icf"), make, {"d": 10, "K": 25, "n": 1000}, size_of, read,
                  file="gmm_d10_K25.txt",
                  behind="a product whose sum is all that is used, the gradient of max, which cancels, and arrays "
                         "that pass through memory between the products.")
