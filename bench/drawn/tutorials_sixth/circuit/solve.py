"""Newton's method on the nodal equations."""
import numpy as np


def operating_point(parts, nodes, tol=1e-10):
    v = np.full(nodes, 0.3)
    for _ in range(100):
        g, i = np.zeros((nodes, nodes)), np.zeros(nodes)
        for part in parts:
            part.stamp(g, i, v)
        new = np.linalg.solve(g, i)
        change = new - v
        v = v + np.clip(change, -0.1, 0.1)
        if np.max(np.abs(change)) < tol:
            return v
    raise RuntimeError("no operating point")
