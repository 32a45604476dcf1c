"""NumPy's Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, keywords, static
from tapegrad.frontends.numpy.shape import rank
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import Op
from tapegrad.rules.registry import register

# -- along one axis


def transform(op: Op, a: Array, n: Any, axis: Any, norm: Any) -> Any:
    axis = static(axis)
    return op(as_array(a),
              **keywords(n=n, axis=None if axis == -1 else axis, norm=None if norm == "backward" else norm))


def _spelled(op: Op) -> Any:
    return lambda a, n=None, axis=-1, norm=None, out=None: transform(op, a, n, axis, norm)


register(np.fft.fft, _spelled(ops.fft))
register(np.fft.ifft, _spelled(ops.ifft))
register(np.fft.rfft, _spelled(ops.rfft))
register(np.fft.irfft, _spelled(ops.irfft))


# -- along several axes, in NumPy's order


def _axes(x: Any, s: Any, axes: Any) -> list[tuple[Any, int]]:
    """Return the axes to transform, each with its new length; None keeps the length."""
    sizes, axes = (None if part is None else [static(i) for i in part] for part in (s, axes))
    if axes is None:
        axes = list(range(-(rank(x) if sizes is None else len(sizes)), 0))
    if sizes is None:
        sizes = [None] * len(axes)
    if len(sizes) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return [(shape_of(x)[axis] if n == -1 else n, axis) for n, axis in zip(sizes, axes)]


def _each(op: Op, x: Any, axes: Sequence[tuple[Any, int]], norm: Any) -> Any:
    for n, axis in axes:
        x = transform(op, x, n, axis, norm)
    return x


def fftn(op: Op, a: Array, s: Array, axes: Axis, norm: Any) -> Any:
    x = as_array(a)
    return _each(op, x, _axes(x, s, axes)[::-1], norm)


def rfftn(a: Array, s: Array, axes: Axis, norm: Any) -> Any:
    x = as_array(a)
    *others, last = _axes(x, s, axes)
    return _each(ops.fft, _each(ops.rfft, x, [last], norm), others[::-1], norm)


def irfftn(a: Array, s: Array, axes: Axis, norm: Any) -> Any:
    x = as_array(a)
    *others, last = _axes(x, s, axes)
    return _each(ops.irfft, _each(ops.ifft, x, others, norm), [last], norm)


for _two, _many, _meaning in [
    (np.fft.fft2, np.fft.fftn, lambda *args: fftn(ops.fft, *args)),
    (np.fft.ifft2, np.fft.ifftn, lambda *args: fftn(ops.ifft, *args)),
    (np.fft.rfft2, np.fft.rfftn, rfftn), (np.fft.irfft2, np.fft.irfftn, irfftn),
]:
    register(_two, lambda a, s=None, axes=(-2, -1), norm=None, out=None, f=_meaning: f(a, s, axes, norm))
    register(_many, lambda a, s=None, axes=None, norm=None, out=None, f=_meaning: f(a, s, axes, norm))

# -- moving the zero frequency to the centre, and back
