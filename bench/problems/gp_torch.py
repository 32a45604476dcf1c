"""The Gaussian process as one would write it in PyTorch."""

from __future__ import annotations

import math

import torch


def objective(amplitude: torch.Tensor, lengthscale: torch.Tensor, noise: torch.Tensor, x: torch.Tensor,
              y: torch.Tensor) -> torch.Tensor:
    """Compute what `gp.objective` does."""
    n = len(y)
    squares = torch.sum((x[:, None, :] - x[None, :, :]) ** 2, 2)
    K = (torch.exp(2.0 * amplitude - 0.5 * squares * torch.exp(-2.0 * lengthscale))
         + torch.exp(2.0 * noise) * torch.eye(n, dtype=x.dtype))
    L = torch.linalg.cholesky(K)
    alpha = torch.cholesky_solve(y[:, None], L)[:, 0]
    return 0.5 * torch.dot(y, alpha) + torch.sum(torch.log(torch.diag(L))) + 0.5 * n * math.log(2 * math.pi)
