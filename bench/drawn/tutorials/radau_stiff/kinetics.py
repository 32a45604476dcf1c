"""Reactions from text, and their rates."""
import re
from collections import defaultdict

TERM = re.compile(r"(\d*)\s*([A-Z]\w*)")


class Mechanism:
    def __init__(self, *lines):
        self.reactions = []
        species = {}
        for line in lines:
            left, right = line.split("->")
            change = defaultdict(int)
            order = []
            for side, sign in ((left, -1), (right, 1)):
                for count, name in TERM.findall(side):
                    species.setdefault(name, len(species))
                    change[name] += sign * int(count or 1)
                    if sign < 0:
                        order.append((name, int(count or 1)))
            self.reactions.append((order, dict(change)))
        self.index = species

    def rates(self, y, k):
        dy = [0.0] * len(self.index)
        for (order, change), constant in zip(self.reactions, k):
            rate = constant
            for name, power in order:
                rate = rate * y[self.index[name]] ** power
            for name, count in change.items():
                dy[self.index[name]] += count * rate
        return dy
