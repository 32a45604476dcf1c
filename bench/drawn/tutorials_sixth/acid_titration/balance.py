"""Electroneutrality, solved for the pH by Brent's method or a secant."""
from scipy.optimize import brentq

KW = 1e-14


def imbalance(ph, acids, sodium):
    h = 10.0 ** -ph
    return h - KW / h + sodium + sum(acid.charge(h) for acid in acids)


def ph_of(acids, sodium):
    return brentq(imbalance, 0.0, 14.0, args=(acids, sodium), xtol=1e-13)


def buffer_capacity(acids, sodium, step=1e-5):
    return 2 * step / (ph_of(acids, sodium + step) - ph_of(acids, sodium - step))
