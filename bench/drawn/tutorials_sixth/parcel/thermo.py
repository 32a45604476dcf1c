"""Thermodynamics of moist air."""
import math

RD, CP, LV, EPS, G = 287.05, 1005.0, 2.501e6, 0.622, 9.81


def saturation(t):
    c = t - 273.15
    return 611.2 * math.exp(17.67 * c / (c + 243.5))


def mixing_ratio(p, e):
    return EPS * e / (p - e)


def virtual(t, r):
    return t * (1 + r / EPS) / (1 + r)


def moist_lapse(p, t):
    r = mixing_ratio(p, saturation(t))
    return (RD * t + LV * r) / (CP + LV ** 2 * r * EPS / (RD * t ** 2)) / p
