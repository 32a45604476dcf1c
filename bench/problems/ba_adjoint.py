"""The gradient of the bundle adjustment by hand, on arrays with a row for each coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient(cameras: Any, points: Any, weights: Any, camera: Any, point: Any,
             features: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the value and gradient. Names follow `ba.objective`; d… is a cotangent."""
    seen = np.take(cameras.T, camera, axis=1)  # (11, p)
    focal, radial = seen[6], seen[9:]
    angle = np.sqrt(dot(seen[:3], seen[:3]))
    axis, cosine, sine = seen[:3] / angle, np.cos(angle), np.sin(angle)
    x = np.take(points.T, point, axis=1) - seen[3:6]
    along, across, versine = dot(axis, x), cross(axis, x), 1.0 - cosine
    inside = x * cosine + across * sine + axis * (along * versine)
    flat = inside[:2] / inside[2]
    square = dot(flat, flat)
    distortion = 1.0 + square * (radial[0] + radial[1] * square)
    distorted = flat * distortion
    raw = distorted * focal + seen[7:9] - features.T
    errors, slack = weights * raw, 1.0 - weights * weights
    value = 0.5 * (np.vdot(errors, errors) + slack @ slack)

    dseen = np.empty_like(seen)
    dweights = dot(errors, raw) - 2.0 * weights * slack
    dimage = np.multiply(weights, errors, out=dseen[7:9])
    dseen[6] = dot(distorted, dimage)
    ddistorted = focal * dimage
    ddistortion = dot(flat, ddistorted)
    np.multiply(ddistortion, square, out=dseen[9])
    np.multiply(dseen[9], square, out=dseen[10])
    dflat = distortion * ddistorted + flat * (2.0 * ddistortion * (radial[0] + 2.0 * radial[1] * square))
    dinside = np.empty_like(inside)
    np.divide(dflat, inside[2], out=dinside[:2])
    dinside[2] = -dot(flat, dinside[:2])

    dalong = dot(axis, dinside)
    turned = versine * dalong
    dx = cosine * dinside + sine * cross(dinside, axis) + axis * turned
    daxis = sine * cross(x, dinside) + (along * versine) * dinside + x * turned
    dangle = cosine * dot(across, dinside) - sine * (dot(x, dinside) - along * dalong)
    dseen[:3] = (daxis - axis * dot(axis, daxis)) / angle + axis * dangle
    np.negative(dx, out=dseen[3:6])
    return value, (scattered(dseen, camera, len(cameras)), scattered(dx, point, len(points)), dweights)


def dot(a: Any, b: Any) -> Any:
    """Return the inner product of each pair of columns."""
    return np.einsum("ip,ip->p", a, b)


def cross(a: Any, b: Any) -> Any:
    """Return the vector product of each pair of columns."""
    out = np.empty_like(a)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.multiply(a[j], b[k], out=out[i])
        out[i] -= a[k] * b[j]
    return out


def scattered(rows: Any, index: Any, n: int) -> Any:
    """Return an array (n, rows) with each column of `rows` added at its index: bincount is faster than np.add.at."""
    return np.stack([np.bincount(index, row, n) for row in rows], axis=1)
