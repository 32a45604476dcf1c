"""The gradient of a gradient, whose inner one is a lesson's."""
from .engine import Value


def objective(a, b):
    x, y = Value(a), Value(b)
    z = x * y + x * x * x + y * -2.0
    z.backward()
    return x.grad**2 + y.grad * z.data


START = (1.5, -0.7)
