"""Poses in the plane."""
import math
from dataclasses import dataclass


def wrap(angle):
    return (angle + math.pi) % (2 * math.pi) - math.pi


@dataclass
class Pose:
    x: float
    y: float
    theta: float

    def __matmul__(self, other: "Pose") -> "Pose":
        c, s = math.cos(self.theta), math.sin(self.theta)
        return Pose(self.x + c * other.x - s * other.y, self.y + s * other.x + c * other.y,
                    wrap(self.theta + other.theta))

    def observe(self, landmark):
        dx, dy = landmark[0] - self.x, landmark[1] - self.y
        return math.hypot(dx, dy), wrap(math.atan2(dy, dx) - self.theta)
