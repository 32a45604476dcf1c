"""A grid of prices and times."""
from typing import NamedTuple

import numpy as np


class Grid(NamedTuple):
    s: np.ndarray
    dt: float
    steps: int

    @classmethod
    def uniform(cls, top, nodes, expiry, steps):
        return cls(np.linspace(0.0, top, nodes), expiry / steps, steps)
