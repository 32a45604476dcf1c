"""Log densities."""
import math

import numpy as np


def normal(x, loc=0.0, scale=1.0):
    return -0.5 * np.square((x - loc) / scale) - np.log(scale) - 0.5 * math.log(2 * math.pi)


def gamma(x, a, b):
    return a * np.log(b) - math.lgamma(a) + (a - 1) * np.log(x) - b * x


def student(x, nu, loc, scale):
    z = (x - loc) / scale
    return math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * np.log(nu * np.pi) - np.log(scale) - (nu + 1) / 2 * np.log1p(z**2 / nu)
