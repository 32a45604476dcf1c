"""Likelihood of a drive by the noise that is assumed."""
from .filter import Slam
from .geometry import Pose

LANDMARKS = [(2.0, 1.5), (3.5, -1.0)]


def objective(motion_noise, range_noise, bearing_noise, speed):
    slam, truth, cost = Slam(2, motion_noise, range_noise, bearing_noise), Pose(0.0, 0.0, 0.0), 0.0
    for k in range(6):
        truth = truth @ Pose(0.45, 0.0, 0.12)
        slam.predict(Pose(speed, 0.0, 0.11))
        for which, place in enumerate(LANDMARKS):
            r, b = truth.observe(place)
            cost += slam.correct(which, (r + 0.02 * (-1) ** k, b + 0.01))
    return cost + (slam.pose.x - truth.x) ** 2


START = (0.05, 0.1, 0.05, 0.44)
