"""A swap's value on a curve of bonds."""
from .bonds import BONDS
from .curve import bootstrap, internal_rate


def objective(prices, fixed):
    curve = bootstrap(BONDS, prices)
    annuity = sum(curve.discount(t) for t in range(1, 8))
    swap = 1 - curve.discount(7.0) - fixed * annuity
    return 100 * swap + 10 * internal_rate(list(BONDS[1].flows()), prices[1])


START = ([99.2, 98.7, 101.3, 100.4], 0.037)
