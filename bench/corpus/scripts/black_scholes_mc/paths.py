"""Paths of prices."""
import numpy as np


def simulate(S0, mu, sigma, T, steps, n, seed=42):
    rng = np.random.RandomState(seed)
    dt = T / steps
    S = np.zeros((steps + 1, n))
    S[0] = S0
    for t in range(1, steps + 1):
        S[t] = S[t - 1] * np.exp((mu - 0.5 * sigma**2) * dt + sigma * np.sqrt(dt) * rng.standard_normal(n))
    return S
