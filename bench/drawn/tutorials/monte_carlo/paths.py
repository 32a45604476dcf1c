"""Paths of a price, with antithetic variates."""
import math
import random
from itertools import accumulate


class Sampler:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def normals(self, n):
        return [self.rng.gauss(0.0, 1.0) for _ in range(n)]

    def pairs(self, n, count):
        for _ in range(count):
            z = self.normals(n)
            yield z, [-x for x in z]


def path(s, r, sigma, dt, z):
    drift, scale = (r - 0.5 * sigma ** 2) * dt, sigma * math.sqrt(dt)
    return list(accumulate(z, lambda price, x: price * math.exp(drift + scale * x), initial=s))
