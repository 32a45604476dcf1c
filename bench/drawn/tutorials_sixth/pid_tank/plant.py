"""Two tanks in series; the level of the second is seen late."""
from collections import deque
from math import sqrt


class Tanks:
    def __init__(self, area, outlet, delay):
        self.levels = [0.2, 0.1]
        self.area, self.outlet = area, outlet
        self.line = deque([0.1] * delay, maxlen=delay)

    def step(self, valve, dt):
        h1, h2 = self.levels
        q12 = self.outlet * sqrt(2 * 9.81 * max(h1, 1e-9))
        out = self.outlet * sqrt(2 * 9.81 * max(h2, 1e-9))
        self.levels = [h1 + dt * (0.02 * valve - q12) / self.area, h2 + dt * (q12 - out) / self.area]
        self.line.append(h2)
        return self.line[0]
