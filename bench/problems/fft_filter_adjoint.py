"""The gradient of the filter by hand."""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient(signal: Any, cutoff: float, delay: float, target: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the value and gradient; a real filter's adjoint is the filter with the conjugate response.

    Inner products over all n samples are, by Parseval, sums over the half spectrum, each frequency but the first and
    the last (n even) twice.
    """
    n = len(signal)
    f = np.fft.rfftfreq(n)
    squared = (f / cutoff) ** 2
    q = 1.0 + squared
    response = np.exp((-2j * np.pi * delay) * f)
    response /= q
    spectrum = np.fft.rfft(signal)
    error = np.fft.irfft(spectrum * response, n)
    error -= target
    value = 0.5 * (error @ error) / n

    error /= n
    back = np.fft.rfft(error)
    back *= response.conj()  # the spectrum of the signal's cotangent
    dsignal = np.fft.irfft(back, n)
    back *= 2.0 / n
    back[0] *= 0.5
    if n % 2 == 0:
        back[-1] *= 0.5
    spectrum *= back.conj()  # times ∂log(response)/∂θ, its real part is each frequency's share of dθ
    dcutoff = (spectrum.real * squared / q).sum() * 2.0 / cutoff
    return value, (dsignal, dcutoff, 2.0 * np.pi * (spectrum.imag @ f))
