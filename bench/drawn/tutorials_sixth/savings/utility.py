"""Preferences of a household."""
import numpy as np


def crra(c, gamma):
    return np.log(c) if gamma == 1 else c ** (1 - gamma) / (1 - gamma)


def marginal(c, gamma):
    return c ** -gamma


def inverse_marginal(m, gamma):
    return m ** (-1 / gamma)
