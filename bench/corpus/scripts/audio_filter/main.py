"""Noise through a filter and a compressor."""
import numpy as np

from .biquad import lowpass, process

NOISE = np.random.default_rng(0).normal(size=120)


def compress(samples, threshold):
    return [s if abs(s) < threshold else (threshold + (abs(s) - threshold) / 4) * (1 if s > 0 else -1) for s in samples]


def objective(f0, q, threshold):
    y = compress(process(NOISE, lowpass(f0, q)), threshold)
    return sum(s * s for s in y) / len(y)


START = (1200.0, 0.7, 0.6)
