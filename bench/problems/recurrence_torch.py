"""The scalar recurrence for torch."""

from __future__ import annotations

import torch


def objective(x: torch.Tensor, r: float, iterations: int) -> torch.Tensor:
    """Compute what `recurrence.objective` does on a tensor without dimensions."""
    at = torch.tensor(r, dtype=x.dtype)
    for _ in range(iterations):
        at = at * x - torch.sin(at)
    return at
