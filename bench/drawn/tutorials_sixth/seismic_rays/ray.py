"""Travel times of rays that are shot through layers."""
from math import sqrt


def offset(p, layers):
    return sum(2 * layer.thickness * p / sqrt(layer.slowness ** 2 - p ** 2) for layer in layers)


def shoot(distance, layers):
    """Return the ray parameter of a reflection that comes up at a distance, by bisection and then Newton's method."""
    low, high = 0.0, min(layer.slowness for layer in layers) * (1 - 1e-9)
    for _ in range(12):
        middle = (low + high) / 2
        if offset(middle, layers) < distance:
            low = middle
        else:
            high = middle
    p = (low + high) / 2
    for _ in range(20):
        slope = sum(2 * layer.thickness * layer.slowness ** 2 / (layer.slowness ** 2 - p * p) ** 1.5 for layer in layers)
        change = (offset(p, layers) - distance) / slope
        p -= change
        if abs(change) < 1e-15:
            break
    return p


def travel_time(p, layers):
    return sum(2 * layer.thickness * layer.slowness ** 2 / sqrt(layer.slowness ** 2 - p ** 2) for layer in layers)
