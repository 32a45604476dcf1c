"""Alternating least squares."""
import numpy as np

from .ratings import by


def solve_side(groups, other, mean, regular, rank):
    factors = {}
    for name, rated in groups.items():
        a = np.stack([other[item] for item, _ in rated])
        r = np.array([value for _, value in rated]) - mean
        factors[name] = np.linalg.solve(a.T @ a + regular * len(rated) * np.eye(rank), a.T @ r)
    return factors


def als(items, mean, regular, sweeps, rank):
    users_of, items_of = by(0), by(1)
    for _ in range(sweeps):
        users = solve_side(users_of, items, mean, regular, rank)
        items = solve_side(items_of, users, mean, regular, rank)
    return users, items
