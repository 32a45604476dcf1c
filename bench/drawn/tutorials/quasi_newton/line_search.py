"""Backtracking and the strong Wolfe conditions."""


def zoom(phi, slope, low, high, phi0, slope0, c1, c2):
    for _ in range(30):
        t = (low + high) / 2
        if phi(t) > phi0 + c1 * t * slope0 or phi(t) >= phi(low):
            high = t
        else:
            s = slope(t)
            if abs(s) <= -c2 * slope0:
                return t
            if s * (high - low) >= 0:
                high = low
            low = t
    return t


def wolfe(phi, slope, c1=1e-4, c2=0.9):
    phi0, slope0 = phi(0.0), slope(0.0)
    before, t = 0.0, 1.0
    for i in range(20):
        if phi(t) > phi0 + c1 * t * slope0 or (i and phi(t) >= phi(before)):
            return zoom(phi, slope, before, t, phi0, slope0, c1, c2)
        s = slope(t)
        if abs(s) <= -c2 * slope0:
            return t
        if s >= 0:
            return zoom(phi, slope, t, before, phi0, slope0, c1, c2)
        before, t = t, 2 * t
    return t
