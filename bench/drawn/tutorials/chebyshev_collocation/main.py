"""A nonlinear boundary value problem: u'' = k exp(u), u(-1) = a, u(1) = b, by Newton."""
import numpy as np

from .spectral import cheb, interpolate


def bratu(k, a, b, n=12):
    d, x = cheb(n)
    d2 = (d @ d)[1:-1]
    u = 0.5 * (a + b) + 0.5 * (b - a) * x
    for _ in range(20):
        inner = u[1:-1]
        r = d2 @ u - k * np.exp(inner)
        delta = np.linalg.solve(d2[:, 1:-1] - np.diag(k * np.exp(inner)), -r)
        u[1:-1] += delta
        if np.linalg.norm(delta, np.inf) < 1e-13:
            break
    return x, u


def objective(k, a, b):
    x, u = bratu(k, a, b)
    return interpolate(x, u, 0.21) + u.min()


START = (0.6, 0.1, -0.3)
