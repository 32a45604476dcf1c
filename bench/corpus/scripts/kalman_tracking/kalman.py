"""A filter as a class."""
import numpy as np


class KalmanFilter:
    def __init__(self, F, H, Q, R, P, x0):
        self.F, self.H, self.Q, self.R, self.P, self.x = F, H, Q, R, P, x0

    def predict(self):
        self.x = self.F @ self.x
        self.P = self.F @ self.P @ self.F.T + self.Q

    def update(self, z):
        y = z - self.H @ self.x
        S = self.H @ self.P @ self.H.T + self.R
        K = self.P @ self.H.T @ np.linalg.inv(S)
        self.x = self.x + K @ y
        self.P = (np.eye(len(self.x)) - K @ self.H) @ self.P
        return -0.5 * (y.T @ np.linalg.inv(S) @ y + np.log(np.linalg.det(2 * np.pi * S)))
