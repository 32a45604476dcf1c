"""Where Mars is seen from Earth, with the light's time."""
import math

from .position import heliocentric, rotation

AU_PER_CENTURY = 173.1446 * 36525


def objective(century, tilt):
    earth = heliocentric("earth", century)
    delay = 0.0
    for _ in range(3):
        seen = heliocentric("mars", century - delay) - earth
        delay = math.sqrt(seen @ seen) / AU_PER_CENTURY
    x, y, z = rotation("x", math.radians(tilt)) @ seen
    ra, dec = math.atan2(y, x) % (2 * math.pi), math.asin(z / math.hypot(x, y, z))
    return ra + 2 * dec + delay * 1e3


START = (0.2034, 23.43928)
