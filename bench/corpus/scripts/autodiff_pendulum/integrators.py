"""Integrators by name."""
REGISTRY = {}


def integrator(fn):
    REGISTRY[fn.__name__] = fn
    return fn


@integrator
def euler(f, t, y, h):
    return [a + h * b for a, b in zip(y, f(t, y))]


@integrator
def rk4(f, t, y, h):
    k1 = f(t, y)
    k2 = f(t + h / 2, [a + h / 2 * b for a, b in zip(y, k1)])
    k3 = f(t + h / 2, [a + h / 2 * b for a, b in zip(y, k2)])
    k4 = f(t + h, [a + h * b for a, b in zip(y, k3)])
    return [a + h / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4)]
