"""A sequence of surfaces, and where rays meet the image."""
import numpy as np

from .surface import Ray, Sphere


class System:
    def __init__(self):
        self.surfaces, self.end = [], 0.0

    def add(self, radius, thickness, index):
        self.surfaces.append(Sphere(self.end, 1 / radius if radius else 0.0, index))
        self.end += thickness
        return self

    def trace(self, ray):
        index = 1.0
        for surface in self.surfaces:
            ray = surface.refract(ray, index)
            index = surface.index
        t = (self.end - ray.at[2]) / ray.direction[2]
        return Ray(ray.at + t * ray.direction, ray.direction, ray.path + t, ray.history)


def fan(height, angle, n=5):
    for y in np.linspace(-height, height, n):
        yield Ray(np.array([0.1 * y, y, -5.0]), np.array([0.0, np.sin(angle), np.cos(angle)]))
