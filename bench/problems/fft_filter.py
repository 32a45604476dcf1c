"""A filter in the frequency domain: two real Fourier transforms, and complex numbers between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(signal: Any, cutoff: Any, delay: Any, target: Any) -> Any:
    """Return half the mean square between `target` and the `signal` after a low pass and a delay, in samples.

    The response at frequency f, in cycles per sample, is exp(-2πi f delay) / (1 + (f/cutoff)²).
    """
    f = np.fft.rfftfreq(len(signal))
    response = np.exp(-2j * np.pi * f * delay) / (1.0 + (f / cutoff) ** 2)
    filtered = np.fft.irfft(np.fft.rfft(signal) * response, len(signal))
    return 0.5 * np.mean((filtered - target) ** 2)


def make(n: int, seed: int = 0) -> Data:
    """Draw a signal, and as its target the running sum of another."""
    rng = np.random.default_rng(seed)
    return {"signal": rng.standard_normal(n), "cutoff": 0.1, "delay": 2.5,
            "target": rng.standard_normal(n).cumsum() / np.sqrt(n)}


def size_of(data: Data) -> Size:
    """Return the number of samples."""
    return {"n": len(data["signal"])}


PROBLEM = Problem("fft_filter", objective, ("signal", "cutoff", "delay"), make, {"n": 2 ** 16}, size_of,
                  behind="the transforms; beyond them each complex factor is a pass of its own.")
