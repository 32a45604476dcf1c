"""Steady heat in a plate of varying conductivity."""
from collections import defaultdict

import numpy as np

from .krylov import cg
from .sparse import CSR

N = 4


def plate(conductivity, leak):
    entries = defaultdict(float)
    for i in range(N):
        for j in range(N):
            here = i * N + j
            entries[here, here] += leak
            for di, dj in ((0, 1), (1, 0)):
                if i + di < N and j + dj < N:
                    there = (i + di) * N + j + dj
                    k = conductivity[i % 2] if dj else conductivity[2]
                    entries[here, here] += k
                    entries[there, there] += k
                    entries[here, there] -= k
                    entries[there, here] -= k
    return CSR.from_dict((N * N, N * N), entries)


def objective(conductivity, leak):
    residuals = []
    source = np.zeros(N * N)
    source[5] = 1.0
    t = cg(plate(conductivity, leak), source, callback=lambda k, r: residuals.append(r))
    return t.max() + t[15] + 0.0 * len(residuals)


START = (np.array([1.0, 1.4, 0.7]), 0.2)
