"""Adaptive Simpson quadrature with a stack in place of recursion."""
from .rules import Panel, simpson


class TooManyPanels(RuntimeError):
    pass


def integrate(f, a, b, tol=1e-8, limit=4000):
    """Integrate f from a to b; return the integral and the number of panels."""
    fa, fm, fb = f(a), f((a + b) / 2), f(b)
    stack = [(Panel(a, b, fa, fm, fb, simpson(fa, fm, fb, b - a)), tol)]
    total, count = 0.0, 0
    while stack:
        panel, eps = stack.pop()
        a, b, fa, fm, fb, whole = panel
        m = 0.5 * (a + b)
        fl, fr = f(0.5 * (a + m)), f(0.5 * (m + b))
        left, right = simpson(fa, fl, fm, m - a), simpson(fm, fr, fb, b - m)
        delta = left + right - whole
        count += 1
        if count > limit:
            raise TooManyPanels(f"more than {limit} panels")
        if abs(delta) <= 15 * eps:
            total += left + right + delta / 15
        else:
            stack.append((Panel(a, m, fa, fl, fm, left), eps / 2))
            stack.append((Panel(m, b, fm, fr, fb, right), eps / 2))
    return total, count
