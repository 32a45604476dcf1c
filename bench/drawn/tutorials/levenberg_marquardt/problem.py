"""Curves, and their partial derivatives."""
from abc import ABC, abstractmethod

import numpy as np


class Curve(ABC):
    @abstractmethod
    def value(self, t, p): ...

    @abstractmethod
    def jacobian(self, t, p): ...

    def residuals(self, t, y, p):
        return y - self.value(t, p)


class Decay(Curve):
    def value(self, t, p):
        a, k, c = p
        return a * np.exp(-k * t) + c

    def jacobian(self, t, p):
        a, k, c = p
        e = np.exp(-k * t)
        return np.stack([e, -a * t * e, np.ones_like(t)], axis=1)
