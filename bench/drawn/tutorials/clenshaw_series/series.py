"""Clenshaw's recurrence."""
import math


class Series:
    def __init__(self, terms, scale=1.0):
        self.terms = [(scale * c, scale * s) for c, s in terms]

    def clenshaw(self, theta, which):
        b1 = b2 = 0.0
        twice = 2 * math.cos(theta)
        for pair in reversed(self.terms[1:]):
            b1, b2 = twice * b1 - b2 + pair[which], b1
        return b1, b2

    def __call__(self, theta):
        c1, c2 = self.clenshaw(theta, 0)
        s1, _ = self.clenshaw(theta, 1)
        return self.terms[0][0] + c1 * math.cos(theta) - c2 + s1 * math.sin(theta)
