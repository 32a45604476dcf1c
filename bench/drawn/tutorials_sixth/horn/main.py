"""How strong the first harmonics of a horn are."""
import math

from .bore import Bore


def objective(radii, length, pitch):
    bore = Bore(radii, length)
    return sum(math.log10(abs(bore.impedance(n * pitch))) / n for n in (1, 2, 3, 4))


START = ([0.006, 0.0065, 0.008, 0.012, 0.03], 1.3, 118.0)
