"""ADBench's hand tracking, of the simple kind: how far 200 points of a hand are from where a camera saw them, by its
26 angles and places.

F. Srajer, Z. Kukelova, A. Fitzgibbon (2018), arXiv 1807.10129; J. Taylor et al., User-specific hand modeling from
monocular depth sequences (CVPR 2014). Drawn data have the sizes of `hand_simple`: 22 bones, 544 vertices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.problems.problem import Data

FINGERS, JOINTS = 5, 4
# of the forearm none, of the wrist that, and of each finger's bones the wrist or the one before
PARENTS = [-1, 0, *[1 if j == 0 else 1 + JOINTS * f + j for f in range(FINGERS) for j in range(JOINTS)]]


def residuals(theta: Any, frames: Any, inverses: Any, vertices: Any, weights: Any, seen: Any) -> Any:
    """Return the residuals (3 p,) of `theta` (26,): a rotation vector, a place, and of each finger four angles.

    `frames` (22, 4, 4) say how each bone lies on its parent, `inverses` how the hand at rest lies on each; `vertices`
    (p, 4) are skinned by `weights` (22, p), and `seen` (p, 3).
    """
    turns = rotations(angles(theta))
    bones: list[Any] = []
    for b, parent in enumerate(PARENTS):
        local = frames[b] @ turns[b]
        bones.append(local if parent < 0 else bones[parent] @ local)
    skin = np.stack(bones, 0) @ inverses  # (22, 4, 4)
    places = np.einsum("bp,bij,pj->pi", weights, skin, vertices)[:, :3]
    return (places @ rodrigues(theta[:3]).T + theta[3:6] - seen).reshape(-1)


def angles(theta: Any) -> Any:
    """Return the Euler angles of the bones: a finger's first joint has two, the other joints one, the wrist none."""
    zero = theta[:1] * 0.0
    first = [np.concatenate([theta[6 + 4 * f:8 + 4 * f], zero]) for f in range(FINGERS)]
    rest = [[np.concatenate([theta[8 + 4 * f + j:9 + 4 * f + j], zero, zero]) for j in range(2)]
            for f in range(FINGERS)]
    still = np.concatenate([zero, zero, zero])
    rows = [still, still, *[row for f in range(FINGERS) for row in (first[f], *rest[f], still)]]
    return np.stack(rows, 0)


def rotations(angle: Any) -> Any:
    """Return the homogeneous rotations (n, 4, 4) by Euler angles (n, 3)."""
    (sx, sy, sz), (cx, cy, cz) = np.sin(angle).T, np.cos(angle).T
    zero, one = sx * 0.0, sx * 0.0 + 1.0
    entries = [cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz, zero,
               cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz, zero,
               -sy, sx * cy, cx * cy, zero, zero, zero, zero, one]
    return np.stack(entries, -1).reshape(-1, 4, 4)


def rodrigues(vector: Any) -> Any:
    """Return the rotation matrix of a vector: about it, by its length."""
    angle = (vector ** 2).sum() ** 0.5
    x, y, z = vector / angle
    zero = x * 0.0
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], 0).reshape(3, 3)
    one = (cross @ cross) * 0.0
    one = one + np.stack([zero + 1, zero, zero, zero, zero + 1, zero, zero, zero, zero + 1], 0).reshape(3, 3)
    return one + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)


def make(seed: int = 0, points: int = 200) -> Data:
    """Draw a hand, and what was seen of it."""
    rng = np.random.default_rng(seed)
    frames = np.tile(np.eye(4), (len(PARENTS), 1, 1))
    frames[:, :3, 3] = rng.normal(size=(len(PARENTS), 3)) / 5
    weights = rng.random((len(PARENTS), points)) ** 8
    vertices = np.concatenate([rng.normal(size=(points, 3)), np.ones((points, 1))], axis=1)
    inverses = np.linalg.inv(frames)
    return {"theta": 0.2 + 0.1 * rng.random(26), "frames": frames, "inverses": inverses, "vertices": vertices,
            "weights": weights / weights.sum(0), "seen": rng.normal(size=(points, 3))}
