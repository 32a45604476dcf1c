"""Convolution by hand."""
import numpy as np


def convolve2d(image, kernel):
    kernel = np.flipud(np.fliplr(kernel))
    output = np.zeros_like(image)
    padded = np.zeros((image.shape[0] + 2, image.shape[1] + 2))
    padded[1:-1, 1:-1] = image
    for x in range(image.shape[1]):
        for y in range(image.shape[0]):
            output[y, x] = (kernel * padded[y: y + 3, x: x + 3]).sum()
    return output
