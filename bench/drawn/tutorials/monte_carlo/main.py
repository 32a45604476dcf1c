"""A basket of exotic options."""
import math

from .paths import Sampler, path
from .payoff import PAYOFFS


def objective(s, strike, r, sigma):
    totals = dict.fromkeys(PAYOFFS, 0.0)
    count = 20
    for pair in Sampler(7).pairs(6, count):
        for z in pair:
            prices = path(s, r, sigma, 1 / 12, z)
            for name, f in PAYOFFS.items():
                totals[name] += f(prices, strike)
    return math.exp(-r * 0.5) * sum(totals.values()) / (2 * count)


START = (100.0, 101.3, 0.03, 0.25)
