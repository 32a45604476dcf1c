"""Kepler's equation by Newton."""
import math


def eccentric_anomaly(M, e, tol=1e-13):
    E = M if e < 0.8 else math.pi
    while True:
        delta = (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
        E -= delta
        if abs(delta) < tol:
            return E
