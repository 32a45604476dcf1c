"""A layered Earth."""
from typing import NamedTuple


class Layer(NamedTuple):
    thickness: float
    velocity: float

    @property
    def slowness(self):
        return 1 / self.velocity


def build(thicknesses, velocities):
    return [Layer(h, v) for h, v in zip(thicknesses, velocities)]
