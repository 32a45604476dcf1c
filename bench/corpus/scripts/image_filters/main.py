"""Edges of a smoothed picture."""
import numpy as np

from .convolve import convolve2d
from .kernels import gaussian, sobel_x


def objective(image, sigma):
    smooth = convolve2d(image, gaussian(3, sigma))
    gx, gy = convolve2d(smooth, sobel_x), convolve2d(smooth, sobel_x.T)
    magnitude = np.hypot(gx, gy)
    magnitude *= 255.0 / magnitude.max()
    magnitude[magnitude < 50] = 0.0
    return np.mean(magnitude)


START = (np.random.default_rng(2).random((7, 6)), 0.8)
