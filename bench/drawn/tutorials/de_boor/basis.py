"""B-spline basis, by Cox and de Boor."""
from functools import partial


def clamped(control, degree):
    inner = len(control) - degree - 1
    return [0.0] * (degree + 1) + [(i + 1) / (inner + 1) for i in range(inner)] + [1.0] * (degree + 1)


def span(knots, degree, count, t):
    if t >= knots[count]:
        return count - 1
    low, high = degree, count
    while high - low > 1:
        middle = (low + high) // 2
        if t < knots[middle]:
            high = middle
        else:
            low = middle
    return low


def de_boor(knots, control, degree, t):
    k = span(knots, degree, len(control), t)
    d = [control[j + k - degree] for j in range(degree + 1)]
    for r in range(1, degree + 1):
        for j in range(degree, r - 1, -1):
            low, high = knots[j + k - degree], knots[j + 1 + k - r]
            alpha = (t - low) / (high - low)
            d[j] = (1 - alpha) * d[j - 1] + alpha * d[j]
    return d[degree]


def curve(control, degree=3):
    return partial(de_boor, clamped(control, degree), control, degree)
