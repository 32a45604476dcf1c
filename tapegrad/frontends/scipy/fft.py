"""scipy.fft and scipy.fftpack: Fourier transforms like NumPy's, cosine and sine transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft._basic_backend as basic
import scipy.fft._realtransforms_backend as real
import scipy.fftpack as fftpack

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, keywords, static, value_by
from tapegrad.frontends.numpy.fft import transform
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.fft import INVERSE, resized
from tapegrad.ops.trigonometric import TRANSPOSED
from tapegrad.rules.op import Op
from tapegrad.rules.registry import DISPATCH, register

# scipy.fft's public names dispatch by uarray; the functions of SciPy's own backend are plain ones, in two modules.


def _of_one(op: Op) -> Callable[..., Any]:
    return lambda x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None: transform(
        op, x, n, axis, norm)


def _as_numpy(name: str, several: bool, axes: Axis = None) -> Callable[..., Any]:
    """Return the implementation of SciPy's transform `name` by NumPy's, with SciPy's arguments and value."""
    meaning, function = DISPATCH[getattr(np.fft, name)], f"scipy.fft.{name}"

    def of_one(x: Any, n: Any = None, axis: Axis = -1, norm: Any = None, overwrite_x: bool = False, workers: Any = None,
               *, plan: Any = None) -> Any:
        return value_by(function, meaning(x, n, axis, norm), x, **keywords(n=n, axis=axis, norm=norm))

    def of_several(x: Array, s: Any = None, axes: Axis = axes, norm: Any = None, overwrite_x: bool = False,
                   workers: Any = None, *, plan: Any = None) -> Any:
        return value_by(function, meaning(x, s, axes, norm), x, **keywords(s=s, axes=axes, norm=norm))
    return of_several if several else of_one


for _op in (ops.scipy_fft, ops.scipy_ifft, ops.scipy_rfft, ops.scipy_irfft):
    _name = _op.__name__.removeprefix("scipy_")
    register(getattr(basic, _name), _of_one(_op))
    register(getattr(basic, f"{_name}n"), _as_numpy(f"{_name}n", True))
    register(getattr(basic, f"{_name}2"), _as_numpy(f"{_name}n", True, (-2, -1)))
for _name in ("hfft", "ihfft"):
    register(getattr(basic, _name), _as_numpy(_name, False))


def _of_conjugates(axes: Axis) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return implementations of `hfftn` and `ihfftn`: the inverse real transform of the conjugate with the inverse
    scaling, and its inverse.
    """
    def of_spectrum(x: Any, s: Any = None, axes: Axis = axes, norm: Any = None, overwrite_x: bool = False,
                    workers: Any = None, *, plan: Any = None) -> Any:
        y = DISPATCH[np.fft.irfftn](ops.conj(as_array(x)), *_last(s, axes), INVERSE[norm])
        return value_by("scipy.fft.hfftn", y, x, **keywords(s=s, axes=axes, norm=norm))

    def of_signal(x: Any, s: Any = None, axes: Axis = axes, norm: Any = None, overwrite_x: bool = False,
                  workers: Any = None, *, plan: Any = None) -> Any:
        y = ops.conj(DISPATCH[np.fft.rfftn](as_array(x), *_last(s, axes), INVERSE[norm]))
        return value_by("scipy.fft.ihfftn", y, x, **keywords(s=s, axes=axes, norm=norm))
    return of_spectrum, of_signal


def _last(s: Any, axes: Axis) -> tuple[Any, Any]:
    """Return the sizes and the axes: with sizes only, the last axes, which NumPy requires explicitly."""
    sizes, chosen = (None if x is None else tuple(map(static, np.atleast_1d(x))) for x in (s, axes))
    return sizes, tuple(range(-len(sizes), 0)) if chosen is None and sizes is not None else chosen


for _name, _axes in (("hfftn", None), ("hfft2", (-2, -1))):
    for _prefix, _meaning in zip(("", "i"), _of_conjugates(_axes)):
        register(getattr(basic, _prefix + _name), _meaning)


def _along(op: Op, inverse: bool, x: Any, type: Any, n: Any, axis: Any, norm: Any, orthogonalize: Any) -> Any:
    """Transform along one axis: the inverse is the transpose with the inverse scaling."""
    if orthogonalize is not None and orthogonalize is not (norm == "ortho"):
        raise UnknownFunction(f"{op.__name__} with norm={norm!r}, orthogonalize={orthogonalize} is not supported",
                              user_location(), "orthogonalize=None")
    x, type, axis = as_array(x), static(type), static(axis)
    if norm not in INVERSE or type not in TRANSPOSED:
        getattr(real, op.__name__)(np.ones(4), type, norm=norm)  # ValueError, in SciPy's words
    if inverse:
        type, norm = TRANSPOSED[type], INVERSE[norm]
    x = x if n is None else resized(x, static(n), axis)
    return op(x, **keywords(type=None if type == 2 else type, axis=None if axis == -1 else axis,
                            norm=None if norm == "backward" else norm))


def _each(op: Op, inverse: bool, x: Any, type: Any, s: Any, axes: Any, norm: Any, orthogonalize: Any) -> Any:
    x, ndim = as_array(x), len(shape_of(as_array(x)))
    sizes = None if s is None else [static(n) for n in np.atleast_1d(s)]
    chosen = range(-(ndim if sizes is None else len(sizes)),
                   0) if axes is None else [static(axis) for axis in np.atleast_1d(axes)]
    for axis, n in zip(chosen, [None] * len(chosen) if sizes is None else sizes):
        x = _along(op, inverse, x, type, n, axis, norm, orthogonalize)
    return x


def _spelled(op: Op, inverse: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def one(x: Array, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None, overwrite_x: bool = False,
            workers: Any = None, orthogonalize: Any = None) -> Any:
        return _along(op, inverse, x, type, n, axis, norm, orthogonalize)

    def many(x: Array, type: int = 2, s: Any = None, axes: Axis = None, norm: Any = None, overwrite_x: bool = False,
             workers: Any = None, *, orthogonalize: Any = None) -> Any:
        return _each(op, inverse, x, type, s, axes, norm, orthogonalize)
    return one, many


def _unscaled(op: Op, inverse: bool) -> Callable[..., Any]:
    """Return the implementation of scipy.fftpack's transform, whose inverse is the unscaled transpose."""
    def meaning(x: Array, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None,
                overwrite_x: bool = False) -> Any:
        return _along(op, False, x, TRANSPOSED.get(static(type), type) if inverse else type, n, axis, norm, None)
    return meaning


for _op in (ops.dct, ops.dst):
    for _prefix in ("", "i"):
        _one, _several = _spelled(_op, bool(_prefix))
        register(getattr(real, _prefix + _op.__name__), _one)
        register(getattr(fftpack, _prefix + _op.__name__), _unscaled(_op, bool(_prefix)))
        register(getattr(real, f"{_prefix}{_op.__name__}n"), _several)

# -- scipy.fftpack: the same transforms without `norm`; spectra of real signals are packed into real arrays:
# y0, Re y1, Im y1, …, and for an even number of samples Re y(n/2)


def _of_pack(name: str, meaning: Any) -> Callable[..., Any]:
    def packed(x: Any, n: Any = None, axis: Axis = -1, overwrite_x: bool = False) -> Any:
        n, axis = static(n), static(axis)
        last = DISPATCH[np.moveaxis](as_array(x), axis, -1)
        y = DISPATCH[np.moveaxis](meaning(last if n is None else resized(last, n, -1)), -1, axis)
        return value_by(f"scipy.fftpack.{name}", y, x, **keywords(n=n, axis=axis))
    return packed


def _packed(x: Any) -> Any:
    size = shape_of(x)[-1]
    y = ops.scipy_rfft(x)
    parts = ops.stack(ops.real(y), ops.imag(y), axis=-1)
    flat = ops.reshape(parts, (*shape_of(x)[:-1], 2 * (size // 2 + 1)))
    return ops.take(flat, np.array([0, *range(2, size + 1)]), axis=-1)


def _unpacked(x: Any) -> Any:
    size = shape_of(x)[-1]
    odd, even = np.arange(1, size, 2), np.arange(2, size + 1, 2)
    inside = even < size  # y(n/2) has no imaginary part
    one = ops.take(x, np.array([0]), axis=-1)
    imaginary = ops.take(x, np.where(inside, even, 0), axis=-1) * (1j * inside)
    spectrum = ops.concat(one * (1 + 0j), ops.take(x, odd, axis=-1) + imaginary, axis=-1)
    return ops.scipy_irfft(spectrum, n=size)


def _without_norm(meaning: Any, axes: Axis = None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (lambda x, n=None, axis=-1, overwrite_x=False: meaning(x, n, axis),
            lambda x, shape=None, axes=axes, overwrite_x=False: meaning(x, shape, axes))


for _prefix, _op, _meaning in (("", ops.scipy_fft, _packed), ("i", ops.scipy_ifft, _unpacked)):
    _name = f"{_prefix}fft"
    register(getattr(fftpack, _name), _without_norm(_of_one(_op))[0])
    for _suffix, _axes in (("n", None), ("2", (-2, -1))):
        register(getattr(fftpack, _name + _suffix), _without_norm(_as_numpy(f"{_name}n", True), _axes)[1])
    register(getattr(fftpack, f"{_prefix}rfft"), _of_pack(f"{_prefix}rfft", _meaning))


def _of_each(op: Op, inverse: bool) -> Callable[..., Any]:
    def meaning(x: Array, type: int = 2, shape: Any = None, axes: Axis = None, norm: Any = None,
                overwrite_x: bool = False) -> Any:
        return _each(op, False, x, TRANSPOSED.get(static(type), type) if inverse else type, shape, axes, norm, None)
    return meaning


for _op in (ops.dct, ops.dst):
    for _prefix in ("", "i"):
        register(getattr(fftpack, f"{_prefix}{_op.__name__}n"), _of_each(_op, bool(_prefix)))
