"""A curve of discount factors, made bond by bond."""
import bisect
import math


class Curve:
    def __init__(self):
        self.times, self.logs = [0.0], [0.0]

    def discount(self, t):
        i = bisect.bisect_left(self.times, t)
        if i == 0:
            return 1.0
        i = min(i, len(self.times) - 1)
        t0, t1, l0, l1 = self.times[i - 1], self.times[i], self.logs[i - 1], self.logs[i]
        return math.exp(l0 + (l1 - l0) * (t - t0) / (t1 - t0))

    def price(self, bond):
        return sum(amount * self.discount(t) for t, amount in bond.flows())


def bootstrap(bonds, prices, tol=1e-12):
    curve = Curve()
    for bond, price in sorted(zip(bonds, prices), key=lambda pair: pair[0].maturity):
        end = max(t for t, _ in bond.flows())
        curve.times.append(end)
        curve.logs.append(curve.logs[-1] - 0.03 * (end - curve.times[-2]))
        for _ in range(50):
            here = curve.price(bond) - price
            curve.logs[-1] += 1e-6
            slope = (curve.price(bond) - price - here) / 1e-6
            curve.logs[-1] += -1e-6 - here / slope
            if abs(here) < tol * price:
                break
    return curve


def internal_rate(flows, price):
    rate = 0.04
    for _ in range(30):
        value = sum(c * math.exp(-rate * t) for t, c in flows) - price
        slope = -sum(t * c * math.exp(-rate * t) for t, c in flows)
        rate -= value / slope
        if abs(value) < 1e-11:
            return rate
    raise ArithmeticError("no rate")
