"""Biquads from the cookbook of equalisers."""
import math
from collections import namedtuple

Biquad = namedtuple("Biquad", "b0 b1 b2 a1 a2")


def lowpass(f0, q, rate=8000):
    w0 = 2 * math.pi * f0 / rate
    alpha = math.sin(w0) / (2 * q)
    a0 = 1 + alpha
    return Biquad((1 - math.cos(w0)) / 2 / a0, (1 - math.cos(w0)) / a0, (1 - math.cos(w0)) / 2 / a0,
                  -2 * math.cos(w0) / a0, (1 - alpha) / a0)


def process(samples, c):
    x1 = x2 = y1 = y2 = 0.0
    out = []
    for x in samples:
        y = c.b0 * x + c.b1 * x1 + c.b2 * x2 - c.a1 * y1 - c.a2 * y2
        x2, x1, y2, y1 = x1, x, y1, y
        out.append(y)
    return out
