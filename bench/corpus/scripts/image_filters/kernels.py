"""Kernels of filters."""
import numpy as np

sobel_x = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])


def gaussian(size, sigma):
    ax = np.arange(-(size // 2), size // 2 + 1)
    kernel = np.exp(-(ax[:, None] ** 2 + ax[None, :] ** 2) / (2.0 * sigma**2))
    return kernel / np.sum(kernel)
