"""Where a planet is seen."""
import math

from .elements import eccentric_anomaly


def position(a, e, i, M):
    E = eccentric_anomaly(M % (2 * math.pi), e)
    nu = 2 * math.atan2(math.sqrt(1 + e) * math.sin(E / 2), math.sqrt(1 - e) * math.cos(E / 2))
    r = a * (1 - e * math.cos(E))
    return r * math.cos(nu), r * math.sin(nu) * math.cos(i), r * math.sin(nu) * math.sin(i)


def objective(a, e, i, M):
    x, y, z = position(a, e, i, M)
    return math.degrees(math.atan2(y, x)) + math.hypot(x, y, z)


START = (1.52, 0.25, 0.3, 8.0)
