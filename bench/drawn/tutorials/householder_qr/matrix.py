"""Householder reflections and the QR algorithm."""
import numpy as np


def reflector(x):
    v = x.copy()
    v[0] += np.copysign(np.linalg.norm(x), x[0])
    return v / np.linalg.norm(v)


def qr(a):
    a = np.array(a, dtype=float)
    m, n = a.shape
    q = np.eye(m)
    for k in range(min(m - 1, n)):
        v = reflector(a[k:, k])
        a[k:] -= 2 * np.outer(v, v @ a[k:])
        q[:, k:] -= 2 * np.outer(q[:, k:] @ v, v)
    return q, np.triu(a)


def hessenberg(a):
    a = a.copy()
    for k in range(len(a) - 2):
        v = reflector(a[k + 1:, k])
        a[k + 1:, k:] -= 2 * v[:, None] * (v @ a[k + 1:, k:])[None]
        a[:, k + 1:] -= 2 * (a[:, k + 1:] @ v)[:, None] * v[None]
    return a
