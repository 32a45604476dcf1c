"""Steps that adapt themselves."""
import numpy as np

A = [[], [1 / 2], [0, 3 / 4], [2 / 9, 1 / 3, 4 / 9]]
B, C = [2 / 9, 1 / 3, 4 / 9, 0], [7 / 24, 1 / 4, 1 / 3, 1 / 8]


def integrate(f, y, t, t1, tol=1e-4, h=0.1):
    accepted = 0
    while t < t1:
        h = min(h, t1 - t)
        k = []
        for row in A:
            k.append(f(t, y + h * sum((a * kk for a, kk in zip(row, k)), np.zeros_like(y))))
        y5, y4 = (y + h * sum(b * kk for b, kk in zip(bs, k)) for bs in (B, C))
        error = np.max(np.abs(y5 - y4))
        if error <= tol:
            t, y = t + h, y5
            accepted += 1
        h = h * 0.5 if error > tol else h * 1.5
    return y, accepted
