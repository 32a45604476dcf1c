"""Fourier transforms along one axis; those in several dimensions consist of them.

A transform is linear, and its cotangent is its conjugate transpose: the inverse transform with the opposite scaling.
The transform of real numbers omits the conjugate of its inner half, hence the factors of 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import needed, torch
from tapegrad.numbers.tensor_dtypes import inexact_type
from tapegrad.ops.elementwise import where
from tapegrad.ops.shape import along, pad
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, linear_in
from tapegrad.rules.registry import define

# the norm that scales by n where the other scales by 1
INVERSE = {None: "forward", "backward": "forward", "forward": None, "ortho": "ortho"}


def resized(x: Any, n: int, axis: int) -> Any:
    """Crop an axis to a length, or pad it with zeros."""
    m, ndim = shape_of(x)[axis], len(shape_of(x))
    if n > m:
        return pad(x, tuple((0, n - m if i == axis % ndim else 0) for i in range(ndim)))
    return x if n == m else x[along(axis, slice(n))]


def _fit(dx: Cotangent, x: Array, axis: int) -> Any:
    """Bring a cotangent to x's length: zeros where the transform cropped, and cropped where it padded."""
    return resized(dx, shape_of(x)[axis], axis)


def _inner(y: Array, n: int, axis: int) -> Any:
    """Return where half a spectrum of `n` real numbers includes its conjugate: not at 0, nor at an even n's highest."""
    shape = shape_of(y)
    k = np.arange(shape[axis])
    return ((k > 0) & (2 * k < n)).reshape(tuple(-1 if i == axis % len(shape) else 1 for i in range(len(shape))))


def _full(adjoint: Callable[[], Any]) -> Callable[..., Any]:
    return lambda dy, _y, _x, n=None, axis=-1, norm=None: _fit(adjoint()(dy, axis=axis, norm=INVERSE[norm]), _x, axis)


def _rfft_cotangent(dy: Cotangent, _y: Array, _x: Array, n: int | None = None, axis: int = -1,
                    norm: str | None = None) -> Any:
    n = shape_of(_x)[axis] if n is None else n
    return _fit(irfft(where(_inner(dy, n, axis), 0.5 * dy, dy), n=n, axis=axis, norm=INVERSE[norm]), _x, axis)


def _irfft_cotangent(dy: Cotangent, _y: Array, _x: Array, n: int | None = None, axis: int = -1,
                     norm: str | None = None) -> Any:
    dx = rfft(dy, axis=axis, norm=INVERSE[norm])
    return _fit(where(_inner(dx, shape_of(_y)[axis], axis), 2 * dx, dx), _x, axis)


def _of_tensor(name: str) -> Callable[..., Any]:
    def transform(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return getattr(torch.fft, name)(x.to(inexact_type(x)), None if n is None else int(n), axis, norm)
    return transform


fft = define("fft", np.fft.fft, (_full(lambda: ifft),), torch=_of_tensor("fft"), tangent=linear_in(0),
             batch=batching.along(),
    memory=FRESH, spec=types.spectrum())
ifft = define("ifft", np.fft.ifft, (_full(lambda: fft),), torch=_of_tensor("ifft"), tangent=linear_in(0),
              batch=batching.along(),
    memory=FRESH, spec=types.spectrum())
rfft = define("rfft", np.fft.rfft, (_rfft_cotangent,), torch=_of_tensor("rfft"), tangent=linear_in(0),
              batch=batching.along(),
    memory=FRESH, spec=types.spectrum(half=True))
irfft = define("irfft", np.fft.irfft, (_irfft_cotangent,), torch=_of_tensor("irfft"), tangent=linear_in(0),
               batch=batching.along(), memory=FRESH, spec=types.real_signal)

# SciPy's transforms round differently and keep single precision


def _of_scipy(name: str) -> Callable[..., Any]:
    def transform(x: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return getattr(needed("scipy.fft"), name)(x, n, axis, norm)
    return transform


scipy_fft = define("scipy_fft", _of_scipy("fft"), (_full(lambda: ifft),), torch=_of_tensor("fft"), tangent=linear_in(0),
                   batch=batching.along(), memory=FRESH, spec=types.spectrum())
scipy_ifft = define("scipy_ifft", _of_scipy("ifft"), (_full(lambda: fft),), torch=_of_tensor("ifft"),
                    tangent=linear_in(0),
                    batch=batching.along(), memory=FRESH, spec=types.spectrum())
scipy_rfft = define("scipy_rfft", _of_scipy("rfft"), (_rfft_cotangent,), torch=_of_tensor("rfft"), tangent=linear_in(0),
                    batch=batching.along(), memory=FRESH, spec=types.spectrum(half=True))
scipy_irfft = define("scipy_irfft", _of_scipy("irfft"), (_irfft_cotangent,), torch=_of_tensor("irfft"),
                     tangent=linear_in(0),
                     batch=batching.along(), memory=FRESH, spec=types.real_signal)
