"""Programs by the public names of scipy.ndimage that have a derivative."""

from __future__ import annotations

import numpy as np
import scipy.ndimage as sn

from tests.cases.case import draw

X, LINE = draw(5, 4), draw(7)
LABELS = np.array([[1, 1, 0, 2], [1, 2, 2, 2], [0, 3, 3, 1], [3, 3, 1, 0], [2, 2, 1, 3]])
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
TURN, SPOTS = np.array([[0.9, 0.2], [-0.15, 0.8]]), np.array([[0.3, 1.7, 2.2], [0.6, 1.1, 2.4]])

NDIMAGE = {
    "affine_transform": (lambda x, m, o: sn.affine_transform(x, m, o, mode="mirror"), X, TURN, np.array([0.3, 0.4])),
    "black_tophat": (lambda x: sn.black_tophat(x, 3), X),
    "center_of_mass": (lambda x: sn.center_of_mass(x, LABELS, [1, 2]), X + 3),
    "convolve": (sn.convolve, X, draw(3, 3)),
    "convolve1d": (sn.convolve1d, X, draw(3)),
    "correlate": (sn.correlate, X, draw(3, 3)),
    "correlate1d": (sn.correlate1d, X, draw(3)),
    "extrema": (lambda x: sn.extrema(x, LABELS, [1, 2])[:2], X),
    "fourier_ellipsoid": (lambda x: np.abs(sn.fourier_ellipsoid(np.fft.fft2(x), 2.0)), X),
    "fourier_gaussian": (lambda x: np.abs(sn.fourier_gaussian(np.fft.fft2(x), 1.0)), X),
    "fourier_shift": (lambda x, s: np.fft.ifft2(sn.fourier_shift(np.fft.fft2(x), s)).real, X, np.array([0.4, 1.3])),
    "fourier_uniform": (lambda x: np.abs(sn.fourier_uniform(np.fft.fft2(x), 2.0)), X),
    "gaussian_filter": (sn.gaussian_filter, X, 0.8),
    "gaussian_filter1d": (sn.gaussian_filter1d, X, 0.8),
    "gaussian_gradient_magnitude": (sn.gaussian_gradient_magnitude, X, 0.8),
    "gaussian_laplace": (sn.gaussian_laplace, X, 0.8),
    "generic_filter": (lambda x: sn.generic_filter(x, lambda w: np.sum(w * w), 3), X),
    "generic_filter1d": (lambda x: sn.generic_filter1d(x, _sums, 3), X),
    "generic_gradient_magnitude": (lambda x: sn.generic_gradient_magnitude(x, sn.sobel), X),
    "generic_laplace": (lambda x: sn.generic_laplace(x, lambda x, axis, output, mode, cval: sn.correlate1d(x, [1, -2, 1], axis, output, mode, cval)), X),
    "geometric_transform": (lambda x: sn.geometric_transform(x, lambda at: (at[0] * 0.7 + 0.1, at[1] * 0.9)), X),
    "grey_closing": (lambda x: sn.grey_closing(x, 3), X),
    "grey_dilation": (lambda x, s: sn.grey_dilation(x, structure=s), X, 0.1 * draw(3, 3)),
    "grey_erosion": (lambda x, s: sn.grey_erosion(x, structure=s), X, 0.1 * draw(3, 3)),
    "grey_opening": (lambda x: sn.grey_opening(x, footprint=CROSS), X),
    "labeled_comprehension": (lambda x: sn.labeled_comprehension(x, LABELS, [1, 2], np.mean, float, 0.0), X),
    "laplace": (sn.laplace, X),
    "map_coordinates": (sn.map_coordinates, X, SPOTS),
    "maximum": (lambda x: sn.maximum(x, LABELS, [1, 2]), X),
    "maximum_filter": (lambda x: sn.maximum_filter(x, 3), X),
    "maximum_filter1d": (lambda x: sn.maximum_filter1d(x, 3), X),
    "mean": (lambda x: sn.mean(x, LABELS, [1, 2]), X),
    "median": (lambda x: sn.median(x, LABELS, [1, 2]), X),
    "median_filter": (lambda x: sn.median_filter(x, 3), X),
    "minimum": (lambda x: sn.minimum(x, LABELS, [1, 2]), X),
    "minimum_filter": (lambda x: sn.minimum_filter(x, 3), X),
    "minimum_filter1d": (lambda x: sn.minimum_filter1d(x, 3), X),
    "morphological_gradient": (lambda x: sn.morphological_gradient(x, 3), X),
    "morphological_laplace": (lambda x: sn.morphological_laplace(x, 3), X),
    "percentile_filter": (lambda x: sn.percentile_filter(x, 30, 3), X),
    "prewitt": (sn.prewitt, X),
    "rank_filter": (lambda x: sn.rank_filter(x, 2, 3), X),
    "rotate": (lambda x, a: sn.rotate(x, a, mode="nearest"), X, 20.0),
    "shift": (lambda x, s: sn.shift(x, s, mode="mirror"), X, np.array([0.3, 0.7])),
    "sobel": (sn.sobel, X),
    "spline_filter": (sn.spline_filter, X),
    "spline_filter1d": (sn.spline_filter1d, X),
    "standard_deviation": (lambda x: sn.standard_deviation(x, LABELS, [1, 2]), X),
    "sum": (lambda x: sn.sum(x, LABELS, [1, 2]), X),
    "sum_labels": (lambda x: sn.sum_labels(x, LABELS, [1, 2]), X),
    "uniform_filter": (lambda x: sn.uniform_filter(x, 3), X),
    "uniform_filter1d": (lambda x: sn.uniform_filter1d(x, 3), X),
    "variance": (lambda x: sn.variance(x, LABELS, [1, 2]), X),
    "vectorized_filter": (lambda x: sn.vectorized_filter(x, np.mean, size=3), X),
    "white_tophat": (lambda x: sn.white_tophat(x, 3), X),
    "zoom": (lambda x: sn.zoom(x, 1.5, mode="nearest"), X),
}


def _sums(line, out):
    out[...] = line[:-2] + line[1:-1] * line[2:]
