"""A picture of two spheres."""
from .scene import Sphere, raytrace
from .vec import Vec3


def objective(radius, light_x, red):
    scene = [Sphere(Vec3(0.75, 0.1, 1.0), radius, Vec3(0, 0, 1)),
             Sphere(Vec3(-0.75, 0.1, 2.25), 0.6, Vec3(red, 0.223, 0.5))]
    light, eye, total = Vec3(light_x, 5.0, -10.0), Vec3(0.0, 0.35, -1.0), 0.0
    for i in range(6):
        for j in range(4):
            pixel = Vec3(-1 + 0.4 * i, 0.75 - 0.4 * j, 0.0)
            total += sum(raytrace(eye, (pixel - eye).norm(), scene, light))
    return total


START = (0.6, 5.0, 0.5)
