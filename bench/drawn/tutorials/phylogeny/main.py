"""Likelihood of sequences on a tree, by Felsenstein's pruning."""
import math
from collections import Counter

from .newick import parse
from .substitution import BASES, transitions

SEQUENCES = {"ape": "ACGTTGCAAC", "cat": "ACGTCGCAGC", "dog": "ATGTCGCAGC", "eel": "TTGACGTAGA"}
TREE = "((ape:0,(cat:1,dog:2):3):4,eel:5);"


def partial(node, column, kappa):
    if not node.children:
        return {x: float(x == column[node.name]) for x in BASES}
    below = dict.fromkeys(BASES, 1.0)
    for child in node.children:
        p, inner = transitions(child.length, kappa), partial(child, column, kappa)
        below = {x: below[x] * sum(p[x][y] * inner[y] for y in BASES) for x in BASES}
    return below


def objective(kappa, lengths):
    root = parse(TREE, lengths)
    names = list(SEQUENCES)
    patterns = Counter(zip(*SEQUENCES.values()))
    total = 0.0
    for pattern, count in patterns.items():
        column = dict(zip(names, pattern))
        total += count * math.log(0.25 * sum(partial(root, column, kappa).values()))
    return -total


START = (2.1, [0.1, 0.05, 0.07, 0.12, 0.2, 0.4])
