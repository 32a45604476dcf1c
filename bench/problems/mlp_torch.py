"""The perceptron as one would write it in PyTorch."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, relu


def objective(w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor, w3: torch.Tensor,
              b3: torch.Tensor, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute what `mlp.objective` does."""
    h = relu(torch.addmm(b1, x, w1))
    h = relu(torch.addmm(b2, h, w2))
    return cross_entropy(torch.addmm(b3, h, w3), labels)
