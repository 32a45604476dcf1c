"""Fit an epidemic."""
from .model import State, step

OBSERVED = {5: 12.0, 10: 20.0, 20: 60.0}


def objective(beta, gamma):
    state, errors, peak = State(990.0, 10.0, 0.0), [], 0.0
    for day in range(1, 25):
        state = step(state, beta, gamma, 1.0)
        peak = max(peak, state.I)
        if day in OBSERVED:
            errors.append((state.I - OBSERVED[day]) ** 2)
    return sum(errors) / len(errors) + 0.1 * peak


START = (0.3, 0.1)
