"""Eigenvalues of symmetric matrices by shifted QR steps with deflation."""
import numpy as np

from .matrix import hessenberg, qr


def wilkinson(a):
    d = (a[-2, -2] - a[-1, -1]) / 2
    b = a[-1, -2]
    sign = 1.0 if d >= 0 else -1.0
    return a[-1, -1] - sign * b * b / (abs(d) + np.sqrt(d * d + b * b))


def eigenvalues(a, tol=1e-13):
    a = hessenberg(a)
    found = []
    while a.shape[0] > 1:
        for _ in range(60):
            if abs(a[-1, -2]) < tol * (abs(a[-1, -1]) + abs(a[-2, -2])):
                break
            mu = wilkinson(a)
            q, r = qr(a - mu * np.eye(len(a)))
            a = r @ q + mu * np.eye(len(a))
        found.append(a[-1, -1])
        a = a[:-1, :-1]
    found.append(a[0, 0])
    return sorted(found)
