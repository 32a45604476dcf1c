"""Cox's partial likelihood and Breslow's baseline."""
import numpy as np


def partial_likelihood(beta, time, event, x):
    order = np.argsort(-time)
    eta = (x @ beta)[order]
    risk = np.logaddexp.accumulate(eta)
    return (eta - risk)[event[order]].sum()


def baseline(beta, time, event, x):
    hazard = np.exp(x @ beta)
    steps = {}
    for t in sorted(time[event]):
        steps[t] = 1 / hazard[time >= t].sum()
    return steps


def survival_at(when, beta, time, event, x, row):
    total = sum(h for t, h in baseline(beta, time, event, x).items() if t <= when)
    return np.exp(-total * np.exp(x[row] @ beta))
