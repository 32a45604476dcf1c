"""A sounding, and a parcel that rises in it."""
import numpy as np

from .thermo import CP, RD, mixing_ratio, moist_lapse, saturation, virtual


class Sounding:
    def __init__(self, pressure, temperature, dewpoint):
        self.p, self.t, self.td = (np.asarray(x) for x in (pressure, temperature, dewpoint))

    def environment(self, p):
        logp = np.log(self.p[::-1])
        t, td = (np.interp(np.log(p), logp, x[::-1]) for x in (self.t, self.td))
        return virtual(t, mixing_ratio(p, saturation(td)))


def lift(p, t, td, top, dp=1500.0):
    r = mixing_ratio(p, saturation(td))
    moist = False
    while p > top:
        if not moist and mixing_ratio(p, saturation(t)) <= r:
            moist = True
        if moist:
            k1 = moist_lapse(p, t)
            t = t - dp * moist_lapse(p - dp / 2, t - dp / 2 * k1)
        else:
            t = t * ((p - dp) / p) ** (RD / CP)
        p -= dp
        yield p, virtual(t, min(r, mixing_ratio(p, saturation(t))) if moist else r)
