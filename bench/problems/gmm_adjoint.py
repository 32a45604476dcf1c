"""The gradient of the Gaussian mixture by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.problems.gmm import wishart_constant


def gradient(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the value and gradient. Each point's responsibilities are what the likelihood's cotangent becomes."""
    (n, d), K = x.shape, len(means)
    columns, rows = np.triu_indices(d, 1)  # column by column below the diagonal is row by row above it
    qs, below = icf[:, :d], icf[:, d:]
    diagonal, sum_qs = np.exp(qs), qs.sum(axis=1)
    Q = np.zeros((K, d, d))
    Q[:, range(d), range(d)] = diagonal
    Q[:, rows, columns] = below
    centred = x.T - means[:, :, None]  # (K, d, n)
    y = Q @ centred
    scores = (alphas + sum_qs)[:, None] - 0.5 * np.einsum("kdn,kdn->kn", y, y)
    log_sums, responsibility = softmax(scores)
    log_sum, share = softmax(alphas)
    value = (log_sums.sum() - n * log_sum - n * d * 0.5 * math.log(2 * math.pi) - m * sum_qs.sum()
             - K * wishart_constant(d, gamma, int(m)))
    value += 0.5 * gamma ** 2 * (np.vdot(diagonal, diagonal) + np.vdot(below, below))

    y *= responsibility[:, None]  # minus its cotangent
    dQ = y @ centred.transpose(0, 2, 1)
    dmeans = (y.sum(axis=2)[:, None] @ Q)[:, 0]
    weight = responsibility.sum(axis=1)
    dicf = np.empty_like(icf)
    dicf[:, :d] = (gamma ** 2 * diagonal - dQ[:, range(d), range(d)]) * diagonal + (weight - m)[:, None]
    dicf[:, d:] = gamma ** 2 * below - dQ[:, rows, columns]
    return value, (weight - n * share, dmeans, dicf)


def softmax(x: Any) -> tuple[Any, Any]:
    """Return log(sum(exp(x))) over the first axis, and its gradient."""
    top = x.max(axis=0)
    grown = np.exp(x - top)
    total = grown.sum(axis=0)
    grown /= total
    return top + np.log(total), grown
