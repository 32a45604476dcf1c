"""Rosenbrock's function for torch."""

from __future__ import annotations

import torch


def objective(x: torch.Tensor) -> torch.Tensor:
    """Compute what `rosenbrock.objective` does."""
    return torch.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
