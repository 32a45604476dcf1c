"""Flow past a cylinder."""
import numpy as np

from .lattice import OPPOSITE, cxs, cys, equilibrium

Nx, Ny = 16, 8
X, Y = np.meshgrid(range(Nx), range(Ny))
cylinder = (X - Nx / 4) ** 2 + (Y - Ny / 2) ** 2 < 4


def objective(tau, speed):
    F = np.ones((Ny, Nx, 9)) + 0.01 * np.sin(np.arange(Ny * Nx * 9.0)).reshape(Ny, Nx, 9)
    F[:, :, 3] += speed * (1 + 0.2 * np.cos(2 * np.pi * X / Nx * 4))
    F *= (10.0 / np.sum(F, 2))[:, :, None]
    for _ in range(6):
        for i, cx, cy in zip(range(9), cxs, cys):
            F[:, :, i] = np.roll(F[:, :, i], cx, axis=1)
            F[:, :, i] = np.roll(F[:, :, i], cy, axis=0)
        bndryF = F[cylinder, :]
        bndryF = bndryF[:, OPPOSITE]
        rho = np.sum(F, 2)
        ux, uy = np.sum(F * cxs, 2) / rho, np.sum(F * cys, 2) / rho
        F += -(1.0 / tau) * (F - equilibrium(rho, ux, uy))
        F[cylinder, :] = bndryF
    ux[cylinder] = 0
    vorticity = (np.roll(ux, -1, axis=0) - np.roll(ux, 1, axis=0)) - (np.roll(uy, -1, axis=1) - np.roll(uy, 1, axis=1))
    return np.sum(vorticity**2) * 100


START = (0.6, 2.0)
