"""A tree of prices, with and without early exercise."""
from functools import lru_cache
from math import exp, sqrt


def american_put(S, K, T, r, sigma, N):
    dt = T / N
    u = exp(sigma * sqrt(dt))
    d, disc = 1 / u, exp(-r * dt)
    p = (exp(r * dt) - d) / (u - d)

    @lru_cache(maxsize=None)
    def value(n, k):
        price = S * u**k * d ** (n - k)
        exercise = max(K - price, 0)
        if n == N:
            return exercise
        return max(exercise, disc * (p * value(n + 1, k + 1) + (1 - p) * value(n + 1, k)))
    return value(0, 0)
