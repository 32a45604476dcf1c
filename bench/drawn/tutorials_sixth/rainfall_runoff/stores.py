"""Stores of a catchment."""
import math


class Production:
    def __init__(self, capacity):
        self.capacity, self.level = capacity, 0.6 * capacity

    def step(self, rain, evaporation):
        x, ratio = self.capacity, self.level / self.capacity
        if rain >= evaporation:
            w = math.tanh((rain - evaporation) / x)
            stored = x * (1 - ratio ** 2) * w / (1 + ratio * w)
            self.level += stored
            excess = rain - evaporation - stored
        else:
            w = math.tanh((evaporation - rain) / x)
            self.level -= self.level * (2 - ratio) * w / (1 + (1 - ratio) * w)
            excess = 0.0
        percolation = self.level * (1 - (1 + (4 * self.level / (9 * x)) ** 4) ** -0.25)
        self.level -= percolation
        return percolation + excess


class Routing:
    def __init__(self, capacity, exchange):
        self.capacity, self.exchange, self.level = capacity, exchange, 0.5 * capacity

    def step(self, inflow):
        gain = self.exchange * (self.level / self.capacity) ** 3.5
        self.level = max(0.0, self.level + inflow + gain)
        out = self.level * (1 - (1 + (self.level / self.capacity) ** 4) ** -0.25)
        self.level -= out
        return out, gain
