"""Bodies, and what pulls them."""
import math
from dataclasses import dataclass


@dataclass(eq=False)
class Body:
    mass: float
    x: float
    y: float
    vx: float = 0.0
    vy: float = 0.0


def pull(body, node, theta=0.6, soft=0.05):
    if node.mass == 0 or node.body is body:
        return 0.0, 0.0
    dx, dy = node.mx / node.mass - body.x, node.my / node.mass - body.y
    r = math.sqrt(dx * dx + dy * dy + soft * soft)
    if node.children is None or 2 * node.half / r < theta:
        f = node.mass / r ** 3
        return f * dx, f * dy
    parts = [pull(body, child, theta, soft) for child in node.children]
    return sum(p[0] for p in parts), sum(p[1] for p in parts)
