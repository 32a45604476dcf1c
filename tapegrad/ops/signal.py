"""Convolution of arrays of any rank, correlation beyond edges, and recursive filters, by SciPy, imported lazily."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import needed
from tapegrad.numbers.tensors import on_host
from tapegrad.ops.elementwise import astype, conj
from tapegrad.ops.index import scatter, take
from tapegrad.ops.reduce import sum
from tapegrad.ops.shape import along, flip, pad, reshape, stack
from tapegrad.rules import types
from tapegrad.rules.facts import EACH, FRESH
from tapegrad.rules.registry import define


def _convolution(x1: Array, x2: Array, mode: str = "full", method: str = "direct") -> Any:
    signal = needed("scipy.signal")
    return signal.convolve2d(x1, x2, mode) if method == "2d" else signal.convolve(x1, x2, mode, method)


def _full(dy: Cotangent, a: Array, b: Array, mode: str) -> Any:
    """Pad the cotangent of a part of a convolution with zeros to that of the full one."""
    if mode == "full":
        return dy
    widths = []
    for k, m, n in zip(shape_of(dy), shape_of(a), shape_of(b)):
        before = (m + n - 1 - k) // 2 if mode == "same" else min(m, n) - 1
        widths.append((before, m + n - 1 - k - before))
    return pad(dy, tuple(widths))


def _by_factor(a_first: bool) -> Callable[..., Any]:
    def cotangent(dy: Any, _y: Any, a: Any, b: Any, mode: str = "full", method: str = "direct") -> Any:
        other = b if a_first else a
        return convolution(_full(dy, a, b, mode), flip(conj(other)), mode="valid",
                           **({} if method == "direct" else {"method": method}))
    return cotangent


convolution = define("convolution", _convolution, (_by_factor(True), _by_factor(False)), tangent=EACH,
                     torch=on_host(_convolution), memory=FRESH, spec=types.convolved_arrays)


# Correlations of an array that is extended beyond its edges: a pad, which selects elements along each axis, and a sum
# of products with the conjugated weights.

# NumPy's names for SciPy's modes of extension; a constant has no cotangent
PADS = {"reflect": "symmetric", "grid-mirror": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap",
        "grid-wrap": "wrap",
        "constant": "", "grid-constant": ""}


def _filter(name: str) -> Callable[..., Any]:
    def run(x: Array, w: Array, **kwargs: Any) -> Any:
        return getattr(needed("scipy.ndimage"), name)(x, w, **kwargs)
    return run


def _uniform_filter1d(x: Array, size: int, **kwargs: Any) -> Any:
    return needed("scipy.ndimage").uniform_filter1d(x, size, **kwargs)


def _places(x: Any, w: Array, axis: Any, mode: Any, origin: Any) -> list[tuple[int, Any, int, int]]:
    """Return for each axis of the weights its number, its mode of extension, and the widths before and behind."""
    modes, origins = (part if isinstance(part, tuple) else (part,) * len(shape_of(w)) for part in (mode, origin))
    axes = range(len(shape_of(x))) if axis is None else (axis % len(shape_of(x)),)
    return [(i, PADS[how], n // 2 + at, n - 1 - n // 2 - at)
            for i, n, how, at in zip(axes, shape_of(w), modes, origins)]


def _turned(w: Array, x: Array, axis: int | None) -> Any:
    """Reshape one-dimensional weights to lie along an axis."""
    return w if axis is None else reshape(w, tuple(-1 if i == axis % len(shape_of(x)) else 1
                                                   for i in range(len(shape_of(x)))))


def _as_wide(x: Array, other: Array) -> Any:
    """Return an array in the dtype of its products with another: SciPy gives their sums the dtype of the first."""
    dtype = np.result_type(dtype_of(x), dtype_of(other))
    return x if dtype_of(x) == dtype else astype(x, dtype=dtype)


def _by_image(dy: Cotangent, _y: Array, x: Array, w: Array, axis: int | None = None, mode: Any = "reflect",
              origin: Any = 0, **kwargs: Any) -> Any:
    dx = convolution(_as_wide(dy, w), _turned(w, x, axis))
    for i, how, before, behind in _places(x, w, axis, mode, origin):
        n, ndim = shape_of(x)[i], len(shape_of(x))
        if how:
            index = (*[slice(None)] * i, np.pad(np.arange(n), (before, behind), how))
            shape = tuple(n if j == i else size for j, size in enumerate(shape_of(dx)))
            dx = scatter(dx, *index, shape=shape, ranks=(len(index),), dtype=dtype_of(dx))
        else:
            dx = dx[tuple(slice(before, before + n) if j == i else slice(None) for j in range(ndim))]
    return dx


def _by_weights(dy: Cotangent, _y: Array, x: Array, w: Array, axis: int | None = None, mode: Any = "reflect",
                origin: Any = 0, cval: float = 0.0, **kwargs: Any) -> Any:
    wide = x
    for i, how, before, behind in _places(x, w, axis, mode, origin):
        if how:
            wide = take(wide, np.pad(np.arange(shape_of(x)[i]), (before, behind), how), axis=i)
        else:
            wide = pad(wide, tuple((before, behind) if j == i else (0, 0) for j in range(len(shape_of(x)))), cval)
    return reshape(convolution(_as_wide(wide, dy), flip(conj(dy)), mode="valid"), shape_of(w))


correlate1d = define("correlate1d", _filter("correlate1d"), (_by_image, _by_weights),
                     torch=on_host(_filter("correlate1d")), memory=FRESH, spec=types.filtered)
correlate_image = define("correlate_image", _filter("correlate"), (_by_image, _by_weights),
                         torch=on_host(_filter("correlate")), memory=FRESH, spec=types.filtered)
uniform_filter1d = define("uniform_filter1d", _uniform_filter1d, (
    lambda dy, _y, x, size, **kwargs: _by_image(dy, _y, x, np.full(size, 1.0 / size), **kwargs), None),
                          torch=on_host(_uniform_filter1d), memory=FRESH, spec=types.filtered)


# A filter returns the y for which a * y = b * x, the convolutions along an axis. Filtered backwards by 1 / a, a
# cotangent of y is that of b * x.


def _lfilter(b: Array, a: Array, x: Array, axis: int = -1) -> Any:
    return needed("scipy.signal").lfilter(b, a, x, axis)


def _backwards(b: Array, a: Array, x: Array, axis: int) -> Any:
    """Return the output of the transposed filter, which runs along the axis from its end."""
    return flip(lfilter(conj(b), conj(a), flip(x, axis=axis), axis=axis), axis=axis)


def _by_taps(taps: Any, x: Array, g: Any, axis: int) -> Any:
    """Return the cotangent of the coefficients of copies of x, each of which is delayed by its number of steps."""
    n = shape_of(x)[axis]
    delayed = [sum(conj(x[along(axis, slice(n - k))]) * g[along(axis, slice(k, None))]) if k < n else 0.0 * sum(g)
               for k in range(shape_of(taps)[0])]
    return stack(*delayed, axis=0)


def _by_numerator(dy: Cotangent, _y: Array, b: Array, a: Array, x: Array, axis: int = -1) -> Any:
    return _by_taps(b, x, _backwards(a[:1] ** 0, a, dy, axis), axis)


def _by_denominator(dy: Cotangent, y: Array, _b: Array, a: Array, _x: Array, axis: int = -1) -> Any:
    return -_by_taps(a, y, _backwards(a[:1] ** 0, a, dy, axis), axis)


def _lfilter_tangent(ts: Any, _y: Array, b: Array, a: Array, x: Array, axis: int = -1) -> Any:
    db, da, dx = ts
    if da is not None:
        return NotImplemented
    parts = ([] if db is None else [lfilter(db, a, x, axis=axis)]) + ([] if dx is None
                                                                      else [lfilter(b, a, dx, axis=axis)])
    return functools.reduce(operator.add, parts)


lfilter = define("lfilter", _lfilter,
                 (_by_numerator, _by_denominator, lambda dy, _y, b, a, _x, axis=-1: _backwards(b, a, dy, axis)),
                 tangent=_lfilter_tangent, torch=on_host(_lfilter), memory=FRESH, spec=types.filtered_by)
