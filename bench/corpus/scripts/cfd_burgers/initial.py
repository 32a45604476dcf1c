"""What a wave starts from."""
import numpy as np

x = np.linspace(0, 2 * np.pi, 41)


def saw_tooth(nu):
    phi = np.exp(-x**2 / (4 * nu)) + np.exp(-(x - 2 * np.pi) ** 2 / (4 * nu))
    dphi = -2 * x / (4 * nu) * np.exp(-x**2 / (4 * nu)) - 2 * (x - 2 * np.pi) / (4 * nu) * np.exp(-(x - 2 * np.pi) ** 2 / (4 * nu))
    return -2 * nu * dphi / phi + 4
