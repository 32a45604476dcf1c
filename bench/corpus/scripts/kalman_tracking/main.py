"""Tune a tracker."""
import numpy as np

from .kalman import KalmanFilter


def measurements():
    rng = np.random.default_rng(1)
    for k in range(10):
        yield np.array([k * 0.5, k * 0.3]) + 0.2 * rng.normal(size=2)


def objective(q, r):
    dt = 1.0
    F = np.block([[np.eye(2), dt * np.eye(2)], [np.zeros((2, 2)), np.eye(2)]])
    G = np.array([[dt**2 / 2, 0], [0, dt**2 / 2], [dt, 0], [0, dt]])
    kf = KalmanFilter(F, np.eye(2, 4), G @ G.T * q, np.eye(2) * r, np.eye(4) * 5, np.zeros(4))
    score = 0
    for z in measurements():
        kf.predict()
        score += kf.update(z)
    return score


START = (0.1, 0.05)
