"""D2Q9."""
import numpy as np

cxs = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
cys = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
weights = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])
OPPOSITE = [0, 5, 6, 7, 8, 1, 2, 3, 4]


def equilibrium(rho, ux, uy):
    Feq = np.zeros((*rho.shape, 9))
    for i, cx, cy, w in zip(range(9), cxs, cys, weights):
        Feq[:, :, i] = rho * w * (1 + 3 * (cx * ux + cy * uy) + 9 * (cx * ux + cy * uy) ** 2 / 2
                                  - 3 * (ux**2 + uy**2) / 2)
    return Feq
