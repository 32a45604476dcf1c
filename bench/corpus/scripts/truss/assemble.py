"""Stiffness of bars."""
import numpy as np


def stiffness(nodes, bars, E, areas):
    K = np.zeros((2 * len(nodes), 2 * len(nodes)))
    for (a, b), area in zip(bars, areas):
        dx = nodes[b] - nodes[a]
        L = np.linalg.norm(dx)
        c, s = dx / L
        k = E * area / L * np.array([[c * c, c * s], [c * s, s * s]])
        dofs = [2 * a, 2 * a + 1, 2 * b, 2 * b + 1]
        K[np.ix_(dofs, dofs)] += np.block([[k, -k], [-k, k]])
    return K
