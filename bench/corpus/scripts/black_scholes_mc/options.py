"""What options pay."""
from abc import ABC, abstractmethod

import numpy as np


class Option(ABC):
    def __init__(self, strike):
        self.strike = strike

    @abstractmethod
    def payoff(self, paths): ...


class Asian(Option):
    def payoff(self, paths):
        return np.maximum(paths[1:].mean(axis=0) - self.strike, 0)


class Lookback(Option):
    def payoff(self, paths):
        return paths.max(axis=0) - paths[-1]


class Basket(Option):
    def payoff(self, paths):
        return np.clip(self.strike - paths[-1], 0, None) + np.where(paths.min(axis=0) < 80, 1.0, 0.0) * paths[-1] * 0.01
