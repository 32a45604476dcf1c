"""The trace of a product for torch."""

from __future__ import annotations

import torch


def objective(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the trace of a b."""
    return torch.trace(a @ b)
