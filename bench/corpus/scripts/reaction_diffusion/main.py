"""Gray and Scott's patterns."""
import numpy as np

from .stencil import laplace


def objective(feed, kill):
    u, v = np.ones((10, 10)), np.zeros((10, 10))
    u[4:7, 4:7], v[4:7, 4:7] = 0.5, 0.25
    for _ in range(10):
        uvv = u * v * v
        u, v = u + (0.16 * laplace(u) - uvv + feed * (1 - u)), v + (0.08 * laplace(v) + uvv - (feed + kill) * v)
    return np.sum(u * v)


START = (0.06, 0.062)
