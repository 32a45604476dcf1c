"""Ion channels of Hodgkin and Huxley, in a registry of gates."""
import numpy as np

GATES = {}


def gate(name, power):
    def register(cls):
        GATES[name] = (cls, power)
        return cls
    return register


def linoid(x, y):
    return np.where(np.abs(x / y) < 1e-6, y * (1 - x / y / 2), x / (np.exp(x / y) - 1))


@gate("m", 3)
class Activation:
    @staticmethod
    def alpha(v):
        return 0.1 * linoid(-(v + 40), 10.0)

    @staticmethod
    def beta(v):
        return 4 * np.exp(-(v + 65) / 18)


@gate("h", 1)
class Inactivation:
    @staticmethod
    def alpha(v):
        return 0.07 * np.exp(-(v + 65) / 20)

    @staticmethod
    def beta(v):
        return 1 / (1 + np.exp(-(v + 35) / 10))


@gate("n", 4)
class Delayed:
    @staticmethod
    def alpha(v):
        return 0.01 * linoid(-(v + 55), 10.0)

    @staticmethod
    def beta(v):
        return 0.125 * np.exp(-(v + 65) / 80)
