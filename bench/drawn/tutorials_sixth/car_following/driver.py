"""The intelligent driver model of Treiber."""
from __future__ import annotations

import math


class Car:
    length = 4.5

    def __init__(self, x: float, v: float, driver: Driver, leader: Car | None = None):
        self.x, self.v, self.driver, self.leader = x, v, driver, leader

    @property
    def gap(self) -> float:
        return math.inf if self.leader is None else self.leader.x - self.x - self.leader.length

    def acceleration(self) -> float:
        return self.driver(self)


class Driver:
    def __init__(self, wanted, headway, standstill, a, b):
        self.wanted, self.headway, self.standstill, self.a, self.b = wanted, headway, standstill, a, b

    def __call__(self, car):
        free = 1 - (car.v / self.wanted) ** 4
        if car.leader is None:
            return self.a * free
        closing = car.v - car.leader.v
        star = self.standstill + max(0.0, car.v * self.headway + car.v * closing / (2 * math.sqrt(self.a * self.b)))
        return self.a * (free - (star / car.gap) ** 2)
