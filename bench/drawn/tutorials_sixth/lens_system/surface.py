"""Spherical surfaces, and Snell's law in vectors."""
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Ray:
    at: np.ndarray
    direction: np.ndarray
    path: float = 0.0
    history: list = field(default_factory=list)


@dataclass
class Sphere:
    vertex: float
    curvature: float
    index: float

    def hit(self, ray):
        p = ray.at - np.array([0.0, 0.0, self.vertex])
        d, c = ray.direction, self.curvature
        a = c
        b = d[2] - c * (p @ d)
        f = c * (p @ p) - 2 * p[2]
        return f / (b + np.sqrt(b * b - a * f))

    def refract(self, ray, before):
        t = self.hit(ray)
        at = ray.at + t * ray.direction
        normal = np.array([0.0, 0.0, 1.0]) - self.curvature * (at - np.array([0.0, 0.0, self.vertex]))
        mu = before / self.index
        cosine = normal @ ray.direction
        bent = np.sqrt(1 - mu ** 2 * (1 - cosine ** 2))
        return Ray(at, mu * ray.direction + (bent - mu * cosine) * normal, ray.path + before * t, [*ray.history, at])
