"""Energy of convection and its inhibition."""
from math import log

import numpy as np

from .sounding import Sounding, lift
from .thermo import RD

PRESSURE = np.array([1000., 925., 850., 700., 500., 400., 300., 200.]) * 100
TEMPERATURE = np.array([299., 295., 290., 280.5, 262., 251., 235., 219.])


def objective(surface, dewpoint, warming):
    sounding = Sounding(PRESSURE, TEMPERATURE + warming, TEMPERATURE - 6)
    cape = cin = 0.0
    last = 1e5
    for p, tv in lift(1e5, surface, dewpoint, 2.2e4):
        buoyancy = RD * (tv - sounding.environment(p)) * log(last / p)
        if buoyancy > 0:
            cape += buoyancy
        else:
            cin += buoyancy
        last = p
    return (cape + 2 * cin) / 1e3


START = (301.3, 294.2, np.linspace(0.0, 0.4, 8))
