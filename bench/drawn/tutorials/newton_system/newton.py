"""Newton's method with a line search for systems of equations."""
import math

from .linear import solve


def norm(v):
    return math.sqrt(sum(x * x for x in v))


def numerical_jacobian(f, x, fx, h=1e-7):
    columns = []
    for j in range(len(x)):
        moved = list(x)
        moved[j] += h
        columns.append([(p - q) / h for p, q in zip(f(moved), fx)])
    return [list(row) for row in zip(*columns)]


def newton(f, x, jacobian=None, tol=1e-12, steps=50):
    fx = f(x)
    for _ in range(steps):
        if norm(fx) < tol:
            return x
        J = jacobian(x) if jacobian else numerical_jacobian(f, x, fx)
        d = solve(J, [-v for v in fx])
        t = 1.0
        while True:
            trial = [a + t * b for a, b in zip(x, d)]
            ft = f(trial)
            if norm(ft) < (1 - 1e-4 * t) * norm(fx) or t < 1e-4:
                break
            t *= 0.5
        x, fx = trial, ft
    return x
