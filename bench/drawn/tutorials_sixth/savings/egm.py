"""The endogenous grid method of Carroll."""
import numpy as np

from .utility import inverse_marginal, marginal


def backward(consumption, wealth, assets, beta, rate, gamma, shocks, weights):
    expected = np.zeros_like(assets)
    for shock, weight in zip(shocks, weights):
        cash = (1 + rate) * assets + shock
        expected += weight * marginal(np.interp(cash, wealth, consumption), gamma)
    c = inverse_marginal(beta * (1 + rate) * expected, gamma)
    return np.concatenate(([1e-6], c)), np.concatenate(([1e-6], assets + c))


def policy(periods, assets, **preferences):
    c = w = np.concatenate(([1e-6], assets + 1.0))
    for _ in range(periods):
        c, w = backward(c, w, assets, **preferences)
    return c, w
