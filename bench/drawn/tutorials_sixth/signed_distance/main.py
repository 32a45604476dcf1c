"""Brightness of a picture of two balls on a floor, by marching rays."""
from .shapes import Ball, Floor
from .vector import Vec


def march(scene, start, direction):
    t = 0.0
    for _ in range(60):
        d = scene(start + direction * t)
        if d < 1e-6:
            break
        t += d
        if t > 20:
            return None
    return start + direction * t


def objective(x, radius, light):
    scene = Ball(Vec(x, 0.1, 3.0), radius) | Ball(Vec(-0.6, 0.0, 2.6), 0.5) | Floor(-0.6)
    sun = Vec(*light).unit()
    bright = 0.0
    for row in range(3):
        for column in range(4):
            eye = Vec(-0.9 + 0.6 * column, 0.35 - 0.4 * row, 1.5).unit()
            hit = march(scene, Vec(0, 0, 0), eye)
            if hit is not None:
                bright += max(0.0, scene.normal(hit).dot(sun))
    return bright


START = (0.4, 0.7, [0.5, 0.8, -0.6])
