"""What a plan costs."""
import numpy as np


def plan_cost(plant, state, controls, path):
    cost = 0.0
    for control, goal in zip(controls, path):
        state = plant.step(state, control)
        cost += np.sum((state[:2] - goal) ** 2) + 0.01 * np.sum(np.square(control))
    return cost + 0.1 * np.sum(np.diff(controls, axis=0) ** 2)
