"""Spot size of a doublet."""
import numpy as np

from .system import System, fan


def objective(radii, back):
    doublet = System().add(radii[0], 4.0, 1.5168).add(radii[1], 2.0, 1.6727).add(radii[2], back, 1.0)
    cost = 0.0
    for angle in np.radians([0.0, 1.5]):
        spots = [doublet.trace(ray).at[:2] for ray in fan(8.0, angle)]
        centre = sum(spots) / len(spots)
        cost += sum(((s - centre) ** 2).sum() for s in spots)
    return cost


START = (np.array([61.0, -44.0, -129.0]), 96.0)
