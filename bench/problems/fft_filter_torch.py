"""The filter in the frequency domain for torch."""

from __future__ import annotations

import torch


def objective(signal: torch.Tensor, cutoff: torch.Tensor, delay: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Compute what `fft_filter.objective` does."""
    f = torch.fft.rfftfreq(len(signal), dtype=signal.dtype)
    response = torch.exp(-2j * torch.pi * f * delay) / (1.0 + (f / cutoff) ** 2)
    filtered = torch.fft.irfft(torch.fft.rfft(signal) * response, len(signal))
    return 0.5 * torch.mean((filtered - target) ** 2)
