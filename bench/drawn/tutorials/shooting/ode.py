"""Runge-Kutta steps over any kind of state that is a tuple."""


def rk4(f, t, y, h):
    k1 = f(t, y)
    k2 = f(t + h / 2, tuple(a + h / 2 * b for a, b in zip(y, k1)))
    k3 = f(t + h / 2, tuple(a + h / 2 * b for a, b in zip(y, k2)))
    k4 = f(t + h, tuple(a + h * b for a, b in zip(y, k3)))
    return tuple(a + h / 6 * (b + 2 * c + 2 * d + e) for a, b, c, d, e in zip(y, k1, k2, k3, k4))


def solve(f, t0, t1, y, n):
    h = (t1 - t0) / n
    path = [(t0, y)]
    for i in range(n):
        y = rk4(f, t0 + i * h, y, h)
        path.append((t0 + (i + 1) * h, y))
    return path
