"""Growth rate by the power method, and elasticities."""
import numpy as np


def dominant(a, tol=1e-12, maxiter=400):
    v = np.ones(a.shape[0])
    old = 0.0
    for k in range(maxiter):
        w = a @ v
        value = np.linalg.norm(w, 1) / np.linalg.norm(v, 1)
        v = w / w.sum()
        if abs(value - old) < tol:
            break
        old = value
    return value, v


def reproductive_value(a):
    value, w = dominant(a.T)
    return w / w[0]
