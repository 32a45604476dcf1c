"""Payoffs, by name."""
import statistics

PAYOFFS = {}


def payoff(name):
    def enter(f):
        PAYOFFS[name] = f
        return f
    return enter


@payoff("asian")
def asian(prices, strike):
    return max(statistics.fmean(prices[1:]) - strike, 0.0)


@payoff("lookback")
def lookback(prices, strike):
    return max(prices) - min(prices)


@payoff("barrier")
def barrier(prices, strike):
    return 0.0 if any(p > 150.0 for p in prices) else max(strike - prices[-1], 0.0)
