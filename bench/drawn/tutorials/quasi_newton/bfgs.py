"""BFGS with limited memory: two loops over a deque."""
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from .line_search import wolfe


@dataclass
class Memory:
    size: int = 5
    pairs: deque = field(default_factory=deque)

    def push(self, s, y):
        if s @ y > 1e-14:
            self.pairs.append((s, y, 1.0 / (y @ s)))
            if len(self.pairs) > self.size:
                self.pairs.popleft()

    def direction(self, g):
        q, alphas = g.copy(), []
        for s, y, rho in reversed(self.pairs):
            alphas.append(rho * (s @ q))
            q -= alphas[-1] * y
        if self.pairs:
            s, y, _ = self.pairs[-1]
            q *= (s @ y) / (y @ y)
        for (s, y, rho), a in zip(self.pairs, reversed(alphas)):
            q += s * (a - rho * (y @ q))
        return -q


def minimise(f, df, x, tol=1e-11, steps=60):
    memory, g = Memory(), df(x)
    for _ in range(steps):
        if np.abs(g).max() < tol:
            break
        d = memory.direction(g)
        t = wolfe(lambda t: f(x + t * d), lambda t: df(x + t * d) @ d)
        new = x + t * d
        fresh = df(new)
        memory.push(new - x, fresh - g)
        x, g = new, fresh
    return x
