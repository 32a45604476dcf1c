"""Misfit of reflections to picked times."""
from .earth import build
from .ray import shoot, travel_time

PICKS = {(0.4, 1): 1.02, (1.2, 1): 1.21, (0.4, 2): 1.6, (1.2, 2): 1.72, (2.0, 3): 2.3}


def objective(thicknesses, velocities):
    layers = build(thicknesses, velocities)
    misfit = 0
    for (distance, depth), seen in PICKS.items():
        above = layers[:depth]
        misfit += (travel_time(shoot(distance, above), above) - seen) ** 2
    return misfit


START = ([0.8, 0.7, 1.1], [1.6, 2.2, 3.1])
