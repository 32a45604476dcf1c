"""An American put."""
from .tree import american_put


def objective(S, r, sigma):
    return american_put(S, 100.0, 1.0, r, sigma, 12)


START = (97.0, 0.05, 0.25)
