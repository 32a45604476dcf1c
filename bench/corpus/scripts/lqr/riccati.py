"""Backward recursion."""
import numpy as np


def gains(A, B, Q, R, horizon):
    P, Ks = Q, []
    for _ in range(horizon):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
        Ks.insert(0, K)
    return Ks, P
