"""Crank-Nicolson with projected successive over-relaxation."""
import numpy as np


def coefficients(grid, r, sigma):
    i = np.arange(1, len(grid.s) - 1)
    a = 0.25 * grid.dt * (sigma ** 2 * i ** 2 - r * i)
    b = -0.5 * grid.dt * (sigma ** 2 * i ** 2 + r)
    c = 0.25 * grid.dt * (sigma ** 2 * i ** 2 + r * i)
    return a, b, c


def psor(a, b, c, rhs, start, floor, omega=1.2, sweeps=40):
    x = start.copy()
    for _ in range(sweeps):
        worst = 0.0
        for i in range(1, len(x) - 1):
            new = (rhs[i - 1] + a[i - 1] * x[i - 1] + c[i - 1] * x[i + 1]) / (1 - b[i - 1])
            new = max(floor[i], x[i] + omega * (new - x[i]))
            worst = max(worst, abs(new - x[i]))
            x[i] = new
        if worst < 1e-9:
            break
    return x


def price(grid, payoff, r, sigma):
    v = payoff.copy()
    a, b, c = coefficients(grid, r, sigma)
    for _ in range(grid.steps):
        rhs = a * v[:-2] + (1 + b) * v[1:-1] + c * v[2:]
        v = psor(a, b, c, rhs, v, payoff)
    return v
