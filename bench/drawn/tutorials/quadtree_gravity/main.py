"""A small cluster, by Barnes and Hut."""
import math

from .body import Body, pull
from .tree import Node


def cluster(masses):
    for i, m in enumerate(masses):
        angle = 2.4 * i
        yield Body(m, 0.3 * math.sqrt(i + 1) * math.cos(angle), 0.3 * math.sqrt(i + 1) * math.sin(angle))


def objective(masses, dt):
    bodies = list(cluster(masses))
    for _ in range(3):
        root = Node(0.0, 0.0, 2.0)
        for body in bodies:
            root.insert(body)
        for body in bodies:
            ax, ay = pull(body, root)
            body.vx += dt * ax
            body.vy += dt * ay
        for body in bodies:
            body.x += dt * body.vx
            body.y += dt * body.vy
    depth = sum(1 for node in root.walk() if node.body is not None)
    assert depth == len(bodies)
    return sum(0.5 * b.mass * (b.vx ** 2 + b.vy ** 2) for b in bodies) + bodies[2].x


START = ([1.0, 0.5, 0.8, 1.2, 0.6, 0.9], 0.05)
