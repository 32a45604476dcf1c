"""Mean elements of planets, as polynomials of time."""
from collections import namedtuple

Elements = namedtuple("Elements", "a e i L peri node")
BASE = {"earth": Elements(1.00000261, 0.01671123, -0.00001531, 100.46457166, 102.93768193, 0.0),
        "mars": Elements(1.52371034, 0.09339410, 1.84969142, -4.55343205, -23.94362959, 49.55953891)}
RATE = {"earth": Elements(0.00000562, -0.00004392, -0.01294668, 35999.37244981, 0.32327364, 0.0),
        "mars": Elements(0.00001847, 0.00007882, -0.00813131, 19140.30268499, 0.44441088, -0.29257343)}


def at(planet, century):
    return Elements(*(b + r * century for b, r in zip(BASE[planet], RATE[planet])))
