"""Secant and Brent's methods."""


def secant(f, a, b, tol=1e-13):
    fa, fb = f(a), f(b)
    for _ in range(60):
        if abs(fb) < tol or fa == fb:
            return b
        a, b, fa = b, b - fb * (b - a) / (fb - fa), fb
        fb = f(b)
    raise RuntimeError("the secant method does not converge")


def brent(f, a, b, tol=1e-13):
    fa, fb = f(a), f(b)
    if fa * fb > 0:
        raise ValueError("no sign change")
    if abs(fa) < abs(fb):
        a, b, fa, fb = b, a, fb, fa
    c, fc, d, halved = a, fa, b - a, True
    while fb != 0 and abs(b - a) > tol:
        if fa != fc and fb != fc:
            s = (a * fb * fc / ((fa - fb) * (fa - fc)) + b * fa * fc / ((fb - fa) * (fb - fc))
                 + c * fa * fb / ((fc - fa) * (fc - fb)))
        else:
            s = b - fb * (b - a) / (fb - fa)
        low, high = sorted(((3 * a + b) / 4, b))
        if not low < s < high or abs(s - b) >= abs(b - c if halved else d) / 2:
            s, halved = (a + b) / 2, True
        else:
            halved = False
        fs = f(s)
        d, c, fc = b - c, b, fb
        if fa * fs < 0:
            b, fb = s, fs
        else:
            a, fa = s, fs
        if abs(fa) < abs(fb):
            a, b, fa, fb = b, a, fb, fa
    return b
