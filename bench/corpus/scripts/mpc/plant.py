"""A bicycle."""
import numpy as np


class Bicycle:
    L = 2.5

    def __init__(self, dt):
        self.dt = dt

    def step(self, state, control):
        x, y, yaw, v = state
        a, delta = control
        delta = np.clip(delta, -0.6, 0.6)
        return np.array([x + v * np.cos(yaw) * self.dt, y + v * np.sin(yaw) * self.dt,
                         yaw + v / self.L * np.tan(delta) * self.dt, v + a * self.dt])
