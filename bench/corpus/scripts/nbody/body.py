"""A planet."""
import math
from dataclasses import dataclass

G = 6.674e-11 * 1e11


@dataclass
class Body:
    mass: float
    position: list
    velocity: list

    def pull(self, other):
        d = [b - a for a, b in zip(self.position, other.position)]
        r = math.sqrt(sum(c * c for c in d)) + 0.01
        return [G * other.mass * c / r**3 for c in d]
