"""Conjugate gradients with a Jacobi preconditioner."""
import numpy as np


def cg(a, b, tol=1e-12, callback=None):
    x = np.zeros_like(b)
    inverse = 1.0 / a.diagonal()
    r = b - a @ x
    z = inverse * r
    p = z.copy()
    rz = r @ z
    for k in range(10 * len(b)):
        ap = a @ p
        alpha = rz / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        if callback:
            callback(k, r)
        if np.linalg.norm(r) < tol * np.linalg.norm(b):
            break
        z = inverse * r
        rz, old = r @ z, rz
        p *= rz / old
        p += z
    return x
