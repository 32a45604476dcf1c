"""Laguerre's method."""
import cmath


def laguerre(p, x, tol=1e-14):
    n = len(p) - 1
    d1 = p.derivative()
    d2 = d1.derivative()
    for _ in range(80):
        value = p(x)
        if abs(value) < tol:
            break
        g = d1(x) / value
        h = g * g - d2(x) / value
        root = cmath.sqrt((n - 1) * (n * h - g * g))
        below = max(g + root, g - root, key=abs)
        step = n / below
        x -= step
        if abs(step) < tol * abs(x):
            break
    return x


def roots(p):
    full, found = p, []
    while len(p) > 2:
        r = laguerre(p, 0.1 + 0.1j)
        r = laguerre(full, r)
        found.append(r)
        p = p.deflate(r)
    found.append(-p[0] / p[1])
    return sorted(found, key=lambda z: (z.real, z.imag))
