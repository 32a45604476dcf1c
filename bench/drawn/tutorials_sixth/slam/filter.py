"""An extended Kalman filter of a pose and its map."""
import numpy as np

from .geometry import Pose, wrap


class Slam:
    def __init__(self, landmarks, motion_noise, range_noise, bearing_noise):
        self.mu = np.zeros(3 + 2 * landmarks)
        self.sigma = np.diag([0.01] * 3 + [10.0] * (2 * landmarks))
        self.q = motion_noise
        self.r = np.diag([range_noise ** 2, bearing_noise ** 2])
        self.known = set()

    @property
    def pose(self):
        return Pose(*self.mu[:3])

    def predict(self, step):
        new = self.pose @ step
        f = np.eye(self.mu.size)
        f[0, 2], f[1, 2] = self.mu[1] - new.y, new.x - self.mu[0]
        self.mu[:3] = new.x, new.y, new.theta
        self.sigma = f @ self.sigma @ f.T
        self.sigma[:3, :3] += self.q ** 2 * np.eye(3)

    def correct(self, which, seen):
        i = 3 + 2 * which
        if which not in self.known:
            r, b = seen
            self.mu[i:i + 2] = self.mu[:2] + r * np.array([np.cos(b + self.mu[2]), np.sin(b + self.mu[2])])
            self.known.add(which)
        r, b = self.pose.observe(self.mu[i:i + 2])
        dx, dy = self.mu[i:i + 2] - self.mu[:2]
        h = np.zeros((2, self.mu.size))
        h[0, [0, 1, i, i + 1]] = -dx / r, -dy / r, dx / r, dy / r
        h[1, [0, 1, 2, i, i + 1]] = dy / r ** 2, -dx / r ** 2, -1, -dy / r ** 2, dx / r ** 2
        s = h @ self.sigma @ h.T + self.r
        gain = np.linalg.solve(s, h @ self.sigma).T
        error = np.array([seen[0] - r, wrap(seen[1] - b)])
        self.mu = self.mu + gain @ error
        self.sigma = (np.eye(self.mu.size) - gain @ h) @ self.sigma
        return 0.5 * error @ np.linalg.solve(s, error) + 0.5 * np.log(np.linalg.det(s))
