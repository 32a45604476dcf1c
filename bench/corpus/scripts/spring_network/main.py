"""A cloth falls, held at two corners."""
from .mesh import Cloth


def objective(k, gravity):
    cloth = Cloth(3, k)
    for _ in range(12):
        cloth.vel += 0.02 * cloth.forces(gravity)
        cloth.vel *= 0.99
        cloth.vel[[0, cloth.n - 1]] = 0
        cloth.pos += 0.02 * cloth.vel
    return (cloth.stretch**2).sum() * 1e3 + cloth.pos[:, 1].min()


START = (30.0, 9.8)
