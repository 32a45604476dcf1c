"""HLL fluxes of the shallow-water equations."""
import numpy as np

G = 9.81


def physical(q):
    h, hu = q
    u = hu / h
    return np.stack([hu, hu * u + 0.5 * G * h ** 2])


def hll(left, right):
    hl, hr = left[0], right[0]
    ul, ur = left[1] / hl, right[1] / hr
    cl, cr = np.sqrt(G * hl), np.sqrt(G * hr)
    sl, sr = np.minimum(ul - cl, ur - cr), np.maximum(ul + cl, ur + cr)
    fl, fr = physical(left), physical(right)
    middle = (sr * fl - sl * fr + sl * sr * (right - left)) / (sr - sl)
    return np.where(sl >= 0, fl, np.where(sr <= 0, fr, middle))
