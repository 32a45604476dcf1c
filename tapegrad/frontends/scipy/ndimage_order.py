"""scipy.ndimage's order filters (minimum, maximum, rank in a window), grey morphology, user functions of a window, and
filters of Fourier transforms.

SciPy's Python code runs as it is; its compiled kernels are written in ops.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.ndimage as sn
from scipy.ndimage import _filters

from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.numpy.shape import numpy_dtype
from tapegrad.frontends.scipy.ndimage_spline import MODES
from tapegrad.frontends.scipy.python_code import run_with
from tapegrad.numbers.cotangents import shape_of
from tapegrad.ops.signal import PADS
from tapegrad.rules.registry import refused


def _extended(x: Any, widths: list[tuple[int, int]], mode: int, cval: Any) -> Any:
    """Return an array extended by `widths` beyond its edges."""
    how: Any = PADS[MODES[mode]]
    if how == "":
        return np.pad(x, widths, constant_values=cval)
    for axis, (n, (before, behind)) in enumerate(zip(shape_of(x), widths)):
        if before or behind:
            x = np.take(x, np.pad(np.arange(n), (before, behind), how), axis)
    return x


def _widths(n: int, origin: int) -> tuple[int, int]:
    return n // 2 + origin, n - 1 - n // 2 - origin


def windows(x: Any, footprint: Any, mode: int, cval: Any, origins: Any) -> Any:
    """Return the pixels that a footprint covers around each pixel, along a new first axis."""
    x, footprint, shape = as_array(x), np.asarray(footprint, bool), shape_of(x)
    wide = _extended(x, [_widths(n, static(at)) for n, at in zip(footprint.shape, origins)], mode, cval)
    corners = [tuple(map(int, place)) for place in np.argwhere(footprint)]
    return np.stack([wide[tuple(slice(k, k + n) for k, n in zip(corner, shape))] for corner in corners])


def min_or_max_filter(x: Any, footprint: Any, structure: Any, output: Any, mode: int, cval: Any, origins: Any,
                      smallest: bool) -> None:
    if 0 in shape_of(x):
        return
    found = windows(x, footprint, mode, cval, origins)
    if structure is not None:
        if numpy_dtype(output).kind in "biu":
            raise refused("grey morphology of integers with a structure", "SciPy rounds intermediate results",
                          "convert the image to floats")
        each = np.reshape(as_array(structure)[np.asarray(footprint, bool)], (-1, *[1] * len(shape_of(x))))
        found = found - each if smallest else found + each
    output[...] = np.min(found, axis=0) if smallest else np.max(found, axis=0)


def min_or_max_filter1d(x: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int,
                        smallest: bool) -> None:
    ndim = len(shape_of(x))
    footprint = np.ones([size if i == axis else 1 for i in range(ndim)], bool)
    origins = [origin if i == axis else 0 for i in range(ndim)]
    min_or_max_filter(x, footprint, None, output, mode, cval, origins, smallest)


def rank_filter(x: Any, rank: int, footprint: Any, output: Any, mode: int, cval: Any, origins: Any) -> None:
    if 0 not in shape_of(x):
        output[...] = np.sort(windows(x, footprint, mode, cval, origins), axis=0)[int(rank)]


def _rank_filter_1d(x: Any, rank: int, size: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    rank_filter(x, rank, np.ones(size, bool), output, mode, cval, [origin])


def generic_filter(x: Any, function: Any, footprint: Any, output: Any, mode: int, cval: Any, origins: Any, args: Any,
                   kwargs: Any) -> None:
    if 0 in shape_of(x):
        return
    found = windows(as_array(x) * 1.0, footprint, mode, cval, origins)
    lines = np.reshape(found, (shape_of(found)[0], -1))
    each = [as_array(function(lines[:, i], *args, **kwargs)) for i in range(shape_of(lines)[1])]
    output[...] = np.reshape(np.stack(each), shape_of(x))


def generic_filter1d(x: Any, function: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int,
                     args: Any, kwargs: Any) -> None:
    widths = [_widths(size, static(origin)) if i == axis else (0, 0) for i in range(len(shape_of(x)))]
    lines = np.moveaxis(_extended(as_array(x) * 1.0, widths, mode, cval), axis, -1)
    there = np.moveaxis(output, axis, -1)
    for place in np.ndindex(*shape_of(lines)[:-1]):
        line = np.zeros_like(lines[place][:shape_of(there)[-1]])
        function(lines[place], line, *args, **kwargs)
        there[place] = line


def fourier_filter(x: Any, sizes: Any, n: int, axis: int, output: Any, kind: int) -> None:
    """Multiply by SciPy's filter, which is computed by filtering ones."""
    fn = (sn.fourier_gaussian, sn.fourier_uniform, sn.fourier_ellipsoid)[kind]
    output[...] = x * fn(np.ones(shape_of(x)), [float(size) for size in sizes], n, axis)


def fourier_shift(x: Any, shifts: Any, n: int, axis: int, output: Any) -> None:
    """Multiply by a wave along each axis. A real transform of n samples holds about half of them."""
    y, shape = x, shape_of(x)
    for i, size in enumerate(shape):
        count = n if n >= 0 and i == axis else size
        k = np.arange(size)
        k = k if n >= 0 and i == axis else np.where(k < (size + 1) // 2, k, k - size)
        wave = np.exp(-2j * np.pi / max(count, 1) * k * shifts[i])
        y = y * np.reshape(wave, [-1 if j == i else 1 for j in range(len(shape))])
    output[...] = y


_KERNELS = SimpleNamespace(
    min_or_max_filter=min_or_max_filter, min_or_max_filter1d=min_or_max_filter1d, rank_filter=rank_filter,
    generic_filter=generic_filter, generic_filter1d=generic_filter1d, fourier_filter=fourier_filter,
    fourier_shift=fourier_shift)
run_with(sn.minimum_filter1d, sn.maximum_filter1d, _filters._min_or_max_filter, _filters._rank_filter,
         sn.generic_filter, sn.generic_filter1d, sn.fourier_gaussian, sn.fourier_uniform, sn.fourier_ellipsoid,
         sn.fourier_shift, _nd_image=_KERNELS, _rank_filter_1d=SimpleNamespace(rank_filter=_rank_filter_1d))
