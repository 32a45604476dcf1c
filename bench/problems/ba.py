"""ADBench's bundle adjustment: the errors of points seen by cameras, all observations at once.

F. Srajer, Z. Kukelova, A. Fitzgibbon (2018), arXiv 1807.10129. ADBench differentiates every residual; here half the sum
of their squares is the objective.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(cameras: Any, points: Any, weights: Any, camera: Any, point: Any, features: Any) -> Any:
    """Return half the sum of squares of the weighted reprojection errors, and of 1 - weight².

    `cameras` (n, 11): a rotation vector, which is not zero, a centre, the focal length, the principal point (2), two
    radial distortions. `points` (m, 3). For each of p observations: `weights`, the indices `camera` and `point`, and
    `features` (p, 2).
    """
    errors = weights[:, None] * (project(cameras[camera], points[point]) - features)
    return 0.5 * (np.sum(errors ** 2) + np.sum((1.0 - weights ** 2) ** 2))


def project(camera: Any, x: Any) -> Any:
    """Return the images (p, 2) of points `x` (p, 3), each in its camera of `camera` (p, 11)."""
    inside = rotate(camera[:, :3], x - camera[:, 3:6])
    flat = inside[:, :2] / inside[:, 2:]
    square = np.sum(flat ** 2, axis=1, keepdims=True)
    distortion = 1.0 + camera[:, 9:10] * square + camera[:, 10:] * square ** 2
    return flat * distortion * camera[:, 6:7] + camera[:, 7:9]


def rotate(vector: Any, x: Any) -> Any:
    """Return `x` (p, 3), each rotated about a `vector` by its length: Rodrigues' formula."""
    angle = np.sqrt(np.sum(vector ** 2, axis=1, keepdims=True))
    axis, cosine = vector / angle, np.cos(angle)
    along = np.sum(axis * x, axis=1, keepdims=True) * (1.0 - cosine)
    return x * cosine + np.cross(axis, x) * np.sin(angle) + axis * along


def make(n: int, m: int, p: int, seed: int = 0) -> Data:
    """Draw cameras that look at a cloud of points, and features near where the points appear."""
    rng = np.random.default_rng(seed)
    near = np.array([0.1, -0.1, 0.1, 0, 0, -10, 500, 5, -8, 0.01, 0.001])
    spread = np.array([0.05, 0.05, 0.05, 1, 1, 1, 20, 1, 1, 0.01, 0.001])
    data = {"cameras": near + spread * rng.standard_normal((n, 11)), "points": rng.standard_normal((m, 3)),
            "weights": rng.uniform(0.3, 1.0, p), "camera": np.arange(p) % n, "point": np.arange(p) % m}
    images = project(data["cameras"][data["camera"]], data["points"][data["point"]])
    return {**data, "features": images + rng.standard_normal((p, 2))}


def read(path: Path) -> Data:
    """Read ADBench's text format: `n m p`, then one camera, one point, one weight and one feature, each for all.

    Observation i is of point i mod m by camera i mod n.

    Raises ValueError for a file of another length.
    """
    numbers = np.array(Path(path).read_text().split(), float)
    if len(numbers) != 20:
        raise ValueError(f"{path}: n, m, p, a camera, a point, a weight and a feature are 20 numbers, and the file has "
                         f"{len(numbers)}")
    n, m, p = map(int, numbers[:3])
    camera, point, weight, feature = np.split(numbers[3:], [11, 14, 15])
    return {"cameras": np.tile(camera, (n, 1)), "points": np.tile(point, (m, 1)), "weights": np.tile(weight, p),
            "camera": np.arange(p) % n, "point": np.arange(p) % m, "features": np.tile(feature, (p, 1))}


def size_of(data: Data) -> Size:
    """Return cameras, points, observations."""
    return {"n": len(data["cameras"]), "m": len(data["points"]), "p": len(data["weights"])}


PROBLEM = Problem("ba", objective, ("cameras", "points", "weights"), make, {"n": 49, "m": 7776, "p": 31843}, size_of,
                  read, file="ba1_n49_m7776_p31843.txt",
                  behind="vectors spilled to an unaligned stack, and two divisions by one number.")
