"""Spheres, and what a ray meets."""
import math

from .vec import Vec3

FAR = 1.0e39


class Sphere:
    def __init__(self, centre, r, diffuse, mirror=0.5):
        self.c, self.r, self.diffuse, self.mirror = centre, r, diffuse, mirror

    def intersect(self, O, D):
        b = 2 * D.dot(O - self.c)
        c = self.c.dot(self.c) + O.dot(O) - 2 * self.c.dot(O) - self.r * self.r
        disc = b**2 - 4 * c
        if disc <= 0:
            return FAR
        h0, h1 = (-b - math.sqrt(disc)) / 2, (-b + math.sqrt(disc)) / 2
        h = h0 if h0 > 0 and h0 < h1 else h1
        return h if h > 0 else FAR


def raytrace(O, D, scene, light, bounce=0):
    distances = [s.intersect(O, D) for s in scene]
    nearest = min(distances)
    if nearest == FAR:
        return Vec3(0.1, 0.1, 0.2)
    sphere = scene[distances.index(nearest)]
    M = O + D * nearest
    N = (M - sphere.c) * (1.0 / sphere.r)
    toL = (light - M).norm()
    colour = Vec3(0.05, 0.05, 0.05) + sphere.diffuse * max(N.dot(toL), 0)
    if bounce < 2:
        R = (D - N * 2 * D.dot(N)).norm()
        colour += raytrace(M + N * 0.0001, R, scene, light, bounce + 1) * sphere.mirror
    return colour
