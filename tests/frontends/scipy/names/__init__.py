"""The public names of SciPy that have a derivative: for each a program that calls it, and the arguments to differentiate by."""

from __future__ import annotations

from typing import Any

from tests.frontends.scipy.names import calculus, functions, images, matrices, signals, statistics

ROWS: dict[str, dict[str, tuple[Any, ...]]] = {
    "scipy.special": functions.SPECIAL, "scipy.linalg": matrices.LINALG, "scipy.integrate": calculus.INTEGRATE, "scipy.interpolate": calculus.INTERPOLATE,
    "scipy.signal": signals.SIGNAL, "scipy.ndimage": images.NDIMAGE, "scipy.sparse": matrices.SPARSE, "scipy.sparse.linalg": matrices.SPARSE_LINALG,
    "scipy.optimize": calculus.OPTIMIZE, "scipy.stats": statistics.STATS, "scipy.spatial": matrices.SPATIAL, "scipy.spatial.distance": matrices.DISTANCE,
    "scipy.spatial.transform": matrices.TRANSFORM, "scipy.fft": signals.FFT,
}
# what a search finds is known to some digits only: the step of the differences, and how far off they may be
SEARCHES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(["basinhopping", "brent", "curve_fit", "differential_evolution", "direct", "dual_annealing", "fmin", "fmin_bfgs", "fmin_cg", "fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg", "fmin_powell", "fmin_slsqp", "fmin_tnc", "golden", "least_squares", "leastsq", "minimize", "shgo"], (1e-2, 3e-3)),
    **dict.fromkeys(["boxcox_normmax", "ppcc_max", "yeojohnson_normmax"], (1e-3, 1e-2)),
}
