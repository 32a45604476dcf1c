"""Marquardt's damping."""
import logging

import numpy as np

log = logging.getLogger(__name__)


def fit(curve, t, y, p, damping=1e-2, steps=100):
    r = curve.residuals(t, y, p)
    cost = r @ r
    for step in range(steps):
        j = curve.jacobian(t, p)
        a, g = j.T @ j, j.T @ r
        while True:
            try:
                d = np.linalg.solve(a + damping * np.diag(np.diag(a)), g)
            except np.linalg.LinAlgError:
                damping *= 10
                continue
            trial = curve.residuals(t, y, p + d)
            if trial @ trial <= cost or damping > 1e10:
                break
            damping *= 4
        p, r = p + d, trial
        log.debug("step %d: cost %s", step, cost)
        cost, damping = r @ r, max(damping / 5, 1e-12)
        if np.linalg.norm(d) < 1e-13 * np.linalg.norm(p):
            break
    return p, cost
