"""All pairs at once."""
import numpy as np


def acceleration(pos, mass, softening):
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    return np.hstack(((dx * inv_r3) @ mass, (dy * inv_r3) @ mass, (dz * inv_r3) @ mass))


def energy(pos, vel, mass):
    r = np.sqrt(np.sum((pos[:, None] - pos[None]) ** 2, axis=-1) + np.eye(len(pos)))
    return 0.5 * np.sum(mass * vel**2) - np.sum(np.triu(mass * mass.T / r, 1))
