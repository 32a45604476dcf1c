"""The Gaussian mixture as one would write it in PyTorch."""

from __future__ import annotations

import math

import torch


def objective(alphas: torch.Tensor, means: torch.Tensor, icf: torch.Tensor, x: torch.Tensor, gamma: float,
              m: int) -> torch.Tensor:
    """Return what bench/problems/gmm.py does."""
    (n, d), K = x.shape, means.shape[0]
    qs, below = icf[:, :d], icf[:, d:]
    diagonal, sum_qs = torch.exp(qs), torch.sum(qs, 1)
    # row by row above the diagonal is column by column below
    columns, rows = torch.triu_indices(d, d, 1, device=x.device)
    Q = torch.diag_embed(diagonal)
    Q[:, rows, columns] = below
    distance = torch.sum((Q @ (x.T - means[:, :, None])) ** 2, 1)
    likelihood = torch.sum(torch.logsumexp((alphas + sum_qs)[:, None] - 0.5 * distance,
                                           0)) - n * torch.logsumexp(alphas, 0)
    degrees = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (degrees - j)) for j in range(d))
    constant = degrees * d * (math.log(gamma) - 0.5 * math.log(2)) - log_gamma
    prior = 0.5 * gamma ** 2 * (torch.sum(diagonal ** 2) + torch.sum(below ** 2)) - m * torch.sum(sum_qs) - K * constant
    return likelihood - n * d * 0.5 * math.log(2 * math.pi) + prior
