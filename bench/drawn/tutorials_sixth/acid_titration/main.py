"""Titration of phosphoric and acetic acid with a base."""
from .balance import ph_of
from .species import Acid

CURVE = [(0.0, 1.9), (0.05, 4.1), (0.1, 5.6), (0.2, 7.9)]


def objective(pka, phosphate, acetate):
    acids = [Acid("phosphoric", pka, phosphate), Acid("acetic", [4.76], acetate)]
    return sum((ph_of(acids, sodium) - seen) ** 2 for sodium, seen in CURVE)


START = ([2.15, 7.2, 12.3], 0.08, 0.05)
