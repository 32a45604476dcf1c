"""How well true pairs are told from shuffled ones."""
import math

from .gotoh import align
from .scores import Scores

PAIRS = [("MKTAYIAK", "MKSAYLAR", True), ("GLSDGEWQ", "GLSEGEWQL", True), ("MKTAYIAK", "PNDDCEH", False)]


def objective(match, similar, mismatch, opening, extending):
    scores = Scores(match, similar, mismatch, opening, extending)
    loss = 0.0
    for s, t, related in PAIRS:
        z = align(s, t, scores) / max(len(s), len(t))
        loss += math.log1p(math.exp(-z if related else z))
    return loss


START = (4.0, 1.1, -2.0, 6.0, 1.0)
