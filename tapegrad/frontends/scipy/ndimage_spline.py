"""scipy.ndimage's interpolation: samples of an image between its pixels, differentiable by image and coordinates.

SciPy's Python code runs as it is; its compiled kernels are written in ops. A sample is a weighted sum of (order + 1)
coefficients along each axis; the weights are values of B-splines (M. Unser, "Splines: a perfect fit for signal and
image processing", 1999).
"""

from __future__ import annotations

import functools
import itertools
import operator
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.ndimage as sn

from tapegrad.frontends.common import as_array, static, value_by
from tapegrad.frontends.numpy.shape import numpy_dtype
from tapegrad.frontends.scipy.python_code import run_with
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array

# the boundary modes by their codes, and the boundary modes of the spline coefficients
MODES = ("nearest", "wrap", "reflect", "mirror", "constant", "grid-wrap", "grid-constant")
_BEYOND = {mode: mode for mode in ("nearest", "reflect", "grid-wrap", "grid-constant")}


def put(output: Any, y: Any) -> None:
    """Write a kernel's result into SciPy's output array, rounded as SciPy rounds to integers."""
    kind = numpy_dtype(output).kind
    if kind in "iu" and numpy_dtype(y).kind == "f":
        y = np.trunc(np.where(y > 0, y + 0.5, y - 0.5))
        y = np.clip(y, 0, np.iinfo(numpy_dtype(output)).max) if kind == "u" else y
    output[...] = y


def spline_filter1d(x: Any, order: int, axis: int, output: Any, mode: int) -> None:
    how = {"order": static(order), "axis": static(axis), "mode": MODES[mode]}
    along = sn.spline_filter1d(np.eye(shape_of(x)[how["axis"]]), how["order"], 0, float, how["mode"])
    y = np.moveaxis(np.tensordot(along, as_array(x), (1, how["axis"])), 0, how["axis"])
    put(output, value_by("scipy.ndimage.spline_filter1d", y, x, **how) if shape_of(x) else y)


def _mapped(x: Any, n: int, mode: str) -> Any:
    """Map coordinates beyond the ends of an axis into it. The formulas are SciPy's, to the last bit: a rounding error
    between two pixels would choose the other neighbour.
    """
    if mode in ("constant", "grid-constant", "nearest"):
        return x
    if n == 1:
        return np.clip(x, 0.0, n - 1.0)
    below, above = _MAPS[mode]
    return np.where(x < 0, below(x, n), np.where(x > n - 1, above(x, n), x))


def _mirrored(x: Any, n: int) -> Any:
    x = (2 * n - 2) * np.trunc(-x / (2 * n - 2)) + x
    return np.where(x <= 1 - n, x + (2 * n - 2), -x)


def _mirrored_above(x: Any, n: int) -> Any:
    x = x - (2 * n - 2) * np.trunc(x / (2 * n - 2))
    return np.where(x >= n, (2 * n - 2) - x, x)


def _reflected(x: Any, n: int) -> Any:
    x = np.where(x < -2 * n, 2 * n * np.trunc(-x / (2 * n)) + x, x)
    return np.where(x < -n, x + 2 * n, np.where(x > -1e-15, 1e-15, -x) - 1)


def _reflected_above(x: Any, n: int) -> Any:
    x = x - 2 * n * np.trunc(x / (2 * n))
    return np.where(x >= n, 2 * n - x - 1, x)


_MAPS: dict[str, Any] = {
    "mirror": (_mirrored, _mirrored_above), "reflect": (_reflected, _reflected_above),
    "wrap": (lambda x, n: x + (n - 1) * (np.trunc(-x / (n - 1)) + 1), lambda x, n: x - (n - 1) * np.trunc(x / (n - 1))),
    "grid-wrap": (lambda x, n: x + n * (np.trunc((-1 - x) / n) + 1), lambda x, n: x - n * np.trunc(x / n)),
}
"""The maps for coordinates below 0 and above the last pixel, by boundary mode."""


def _pixels(k: Any, n: int, beyond: str) -> Any:
    """Return the pixel indices that stand for `k`, also beyond the ends."""
    if n == 1 or beyond in ("nearest", "grid-constant"):
        return np.clip(k, 0, n - 1)
    if beyond == "grid-wrap":
        return k % n
    period = 2 * (n - 1 if beyond == "mirror" else n)
    k = k % period
    return np.where(k >= n, period - k - (beyond == "reflect"), k)


def _weights(u: Any, order: int) -> list[Any]:
    """Return the values of the nonzero B-splines at distance `u` from a knot, by de Boor's recursion."""
    found = [1.0 + 0.0 * u]
    for k in range(1, order + 1):
        below = [0.0, *found, 0.0]
        found = [((u - i + k) * below[i] + (i + 1 - u) * below[i + 1]) / k for i in range(k + 1)]
    return found


def _along_axis(x: Any, n: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """Return for each of a sample's order + 1 terms the pixel, the weight, and whether it is inside (None: always)."""
    half = 0.0 if order % 2 else 0.5
    x = _mapped(x, n, mode)
    first = np.floor(x + half)
    found = []
    for k, weight in enumerate(_weights(x - first + half, order)):
        pixel = first.astype(int) + k - order // 2
        there = (pixel >= 0) & (pixel < n) if mode == "grid-constant" else None
        found.append((_pixels(pixel, n, _BEYOND.get(mode, "mirror")), weight, there))
    return found


def samples(x: Any, at: Array, order: int, mode: str, cval: float) -> Any:
    """Return the samples of an image of spline coefficients at the coordinates `at`, one array per axis."""
    numbers, shape, at = np.ravel(as_array(x)), shape_of(x), as_array(at)
    axes = [_along_axis(at[i], n, order, mode) for i, n in enumerate(shape)]
    y: Any = 0.0
    for terms in itertools.product(*axes):
        place: Any = 0
        for (pixel, _, _), n in zip(terms, shape):
            place = place * n + pixel
        value = numbers[place]
        there = [inside for _, _, inside in terms if inside is not None]
        if there:
            value = np.where(functools.reduce(operator.and_, there), value, cval)
        y = y + functools.reduce(operator.mul, [weight for _, weight, _ in terms]) * value
    if mode == "constant":
        inside = [(at[i] >= 0) & (at[i] <= n - 1) for i, n in enumerate(shape)]
        y = np.where(functools.reduce(operator.and_, inside), y, cval)
    return value_by("scipy.ndimage.map_coordinates", y, x, at, output=np.dtype(float), order=order, mode=mode,
                    cval=cval, prefilter=False)


def _put_samples(filtered: Any, at: Array, output: Any, order: int, mode: int, cval: Any, npad: int) -> None:
    if 0 in shape_of(output):
        return
    if 0 in shape_of(filtered):
        raise ValueError("an image without pixels has no samples")
    put(output, samples(filtered, np.add(at, float(npad)), static(order), MODES[mode], float(cval)))


def geometric_transform(filtered: Any, mapping: Any, coordinates: Array, matrix: Any, offset: Any, output: Any,
                        order: int, mode: int, cval: Any, npad: int, args: Any, kwargs: Any) -> None:
    places = np.indices(shape_of(output)).astype(float)
    if mapping is not None:
        each = [mapping(place, *args, **kwargs) for place in np.ndindex(*shape_of(output))]
        coordinates = np.moveaxis(np.reshape(as_array(each), (*shape_of(output), -1)), -1, 0)
    elif coordinates is None:  # summed in SciPy's order
        rows = []
        for i in range(len(shape_of(filtered))):
            row = offset[i]
            for j in range(len(places)):
                row = row + places[j] * matrix[i, j]
            rows.append(row)
        coordinates = np.stack(rows)
    _put_samples(filtered, coordinates, output, order, mode, cval, npad)


def zoom_shift(filtered: Any, zoom: Any, shift: Any, output: Any, order: int, mode: int, cval: Any, npad: int,
               grid_mode: bool) -> None:
    rows = []
    for i, x in enumerate(np.indices(shape_of(output)).astype(float)):
        x = x if shift is None else x + shift[i]
        if zoom is not None:
            x = (x + 0.5) * zoom[i] - 0.5 if grid_mode else x * zoom[i]
        rows.append(x)
    _put_samples(filtered, np.stack(rows), output, order, mode, cval, npad)


_KERNELS = SimpleNamespace(
    spline_filter1d=spline_filter1d, geometric_transform=geometric_transform, zoom_shift=zoom_shift)
run_with(sn.spline_filter1d, sn.geometric_transform, sn.map_coordinates, sn.affine_transform, sn.shift, sn.zoom,
         _nd_image=_KERNELS)
