"""A daily model in the manner of GR4J, and its efficiency after Nash and Sutcliffe."""
from statistics import fmean

from .hydrograph import UnitHydrograph
from .stores import Production, Routing

RAIN = [0, 5, 12, 0, 0, 30, 8, 0, 0, 2, 0, 18, 4, 0, 0, 0, 9, 1, 0, 0]
PET = [2, 1, 1, 3, 3, 1, 1, 2, 3, 3, 4, 1, 2, 3, 4, 4, 2, 2, 3, 3]
SEEN = [1.1, 1.2, 1.6, 2.1, 2.0, 3.2, 5.1, 4.6, 3.4, 2.7, 2.2, 3.0, 3.9, 3.3, 2.7, 2.3, 2.2, 2.3, 2.0, 1.8]


def run(x1, x2, x3, x4):
    production, routing, uh = Production(x1), Routing(x3, x2), UnitHydrograph(x4)
    for rain, pet in zip(RAIN, PET):
        water = uh.step(production.step(rain, pet))
        slow, gain = routing.step(0.9 * water)
        yield slow + max(0.0, 0.1 * water + gain)


def objective(x1, x2, x3, x4):
    flow = list(run(x1, x2, x3, x4))
    mean = fmean(SEEN)
    return 1 - sum((q - s) ** 2 for q, s in zip(flow, SEEN)) / sum((s - mean) ** 2 for s in SEEN)


START = (120.0, 0.4, 40.0, 2.3)
