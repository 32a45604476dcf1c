"""Scores of pairs of amino acids, and of gaps."""
import math

CLASSES = {"hydrophobic": "AVLIMFW", "polar": "STNQ", "charged": "DEKR", "special": "GPCHY"}
KIND = {letter: kind for kind, letters in CLASSES.items() for letter in letters}


class Scores:
    def __init__(self, match, similar, mismatch, opening, extending):
        self.match, self.similar, self.mismatch = match, similar, mismatch
        self.opening, self.extending = opening, extending

    def __call__(self, a, b):
        if a == b:
            return self.match
        return self.similar if KIND[a] == KIND[b] else self.mismatch


def soft(*values, temperature=0.5):
    top = max(values)
    return top + temperature * math.log(sum(math.exp((v - top) / temperature) for v in values))
