"""Kimura's two-parameter model."""
import math

BASES = "ACGT"
PURINES = frozenset("AG")


def transitions(length, kappa):
    a, b = math.exp(-4 * length / (kappa + 2)), math.exp(-2 * length * (kappa + 1) / (kappa + 2))
    same, transition, transversion = 0.25 * (1 + a + 2 * b), 0.25 * (1 + a - 2 * b), 0.25 * (1 - a)

    def probability(x, y):
        if x == y:
            return same
        return transition if (x in PURINES) == (y in PURINES) else transversion
    return {x: {y: probability(x, y) for y in BASES} for x in BASES}
