"""Ops of numerical analysis: convolution, interpolation, angles of complex numbers, a Bessel function, array items."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from tapegrad.numbers import tensor_dtypes, tensors
from tapegrad.numbers.cotangents import ZERO, dtype_of, shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops.batched_index import item_members
from tapegrad.ops.elementwise import (
    conj,
    constant,
    elementwise,
    equal,
    imag,
    logical_and,
    maximum,
    minimum,
    real,
    rint,
    where,
)
from tapegrad.ops.index import assemble, sparse, take
from tapegrad.ops.shape import pad
from tapegrad.ops.sort import searchsorted
from tapegrad.ops.special import i1
from tapegrad.rules import batching, types
from tapegrad.rules.facts import EACH, FRESH, MOVED, RAISES, Partials, linear_in, pointwise
from tapegrad.rules.registry import define

# -- convolution: each rule is a convolution or correlation with the cotangent, padded with zeros where the mode cropped


def _whole(dy: Cotangent, a: Array, b: Array, mode: str, reversed_: bool = False) -> Any:
    """Return the cotangent of the full convolution; `reversed_`: NumPy swapped the two and flipped the result."""
    n, m, have = shape_of(a)[0], shape_of(b)[0], shape_of(dy)[0]
    cut = builtins.min(n, m) - 1
    left = {"full": 0, "same": (cut + 1) // 2 if reversed_ else cut // 2, "valid": cut}[mode]
    right = n + m - 1 - left - have
    return pad(dy, ((left, right),)) if left or right else dy


def _swapped(a: Array, v: Array) -> bool:
    return shape_of(a)[0] < shape_of(v)[0]  # type: ignore[no-any-return]


def _convolve(a: Any, v: Any, mode: str, reversed_: bool = False) -> Any:
    a, v = tensors.together((a, v))
    dtype = a.dtype
    if not dtype.is_floating_point and not dtype.is_complex:
        a, v = a.double(), v.double()
    n, m = len(a), len(v)
    full = torch.nn.functional.conv1d(a[None, None], v.flip(0)[None, None], padding=m - 1)[0, 0].to(dtype)
    cut = builtins.min(n, m) - 1
    left = {"full": 0, "same": (cut + 1) // 2 if reversed_ else cut // 2, "valid": cut}[mode]
    return full[left: left + {"full": n + m - 1, "same": builtins.max(n, m), "valid": builtins.max(n, m) - cut}[mode]]


convolve = define("convolve", lambda x1, x2, mode="full": np.convolve(x1, x2, mode), (
    lambda dy, _y, _a, b, mode="full": correlate(_whole(dy, _a, b, mode), b, mode="valid"),
    lambda dy, _y, a, _b, mode="full": correlate(_whole(dy, a, _b, mode), a, mode="valid")),
    tangent=EACH, batch=False, torch=lambda x1, x2, mode="full": _convolve(x1, x2, mode), memory=FRESH,
    spec=types.convolved)
correlate = define("correlate", lambda x1, x2, mode="full": np.correlate(x1, x2, mode), (
    lambda dy, _y, _a, v, mode="full": convolve(_whole(dy, _a, v, mode, _swapped(_a, v)), v, mode="valid"),
    lambda dy, _y, a, _v, mode="full": correlate(a, _whole(dy, a, _v, mode, _swapped(a, _v)), mode="valid")),
    tangent=EACH, batch=False,
                   torch=lambda x1, x2, mode="full": _convolve(x1, x2.conj().flip(0), mode, len(x1) < len(x2)),
                   memory=FRESH, spec=types.convolved)

# -- interpolation between points (xp, fp). The slope at a point is that of the piece to its right, at the last one that
# to its left


def _piece(x: Array, xp: Any, fp: Array) -> tuple[Any, Any, Any, Any]:
    """Return the two points around each x, its relative place between them, and the slope; outside, the nearest."""
    last = shape_of(xp)[0] - 1
    i = minimum(maximum(searchsorted(xp, x, side="right") - 1, 0), builtins.max(last - 1, 0))
    k = minimum(i + 1, last)
    left, gap = take(xp, i), take(xp, k) - take(xp, i)
    gap = where(equal(gap, 0), 1, gap)
    t = where(x < xp[0], 0.0, where(x > xp[-1], 1.0, (x - left) / gap))
    slope = where(logical_and(x >= xp[0], x <= xp[-1]), (take(fp, k) - take(fp, i)) / gap, 0.0)
    return i, k, t, slope


def _by_place(dy: Cotangent, _y: Array, x: Array, xp: Any, fp: Array) -> Any:
    i, k, t, slope = _piece(x, xp, fp)
    dx = dy * conj(slope)
    return assemble(xp, [real(dx * (t - 1)), real(-dx * t)], [(i,), (k,)])


def _by_value(dy: Cotangent, _y: Array, x: Array, xp: Any, fp: Array) -> Any:
    i, k, t, _ = _piece(x, xp, fp)
    return assemble(fp, [dy * (1 - t), dy * t], [(i,), (k,)])


def _interp(x: Any, xp: Any, fp: Any) -> Any:
    x, xp = tensors.together((x, xp), torch.float64)
    fp = tensors.to_tensor(fp, x.device)
    fp = fp.to(torch.complex128 if fp.is_complex() else torch.float64)
    last = len(xp) - 1
    i = (torch.searchsorted(xp.contiguous(), x.contiguous(), side="right") - 1).clamp(0, builtins.max(last - 1, 0))
    k = (i + 1).clamp(max=last)
    left, low = xp.take(i), fp.take(i)  # not xp[i], for which the host reads a single integer
    gap = xp.take(k) - left
    slope = (fp.take(k) - low) / torch.where(gap == 0, 1.0, gap)
    y = torch.where(x >= xp[-1], fp[-1], torch.where(x < xp[0], fp[0], slope * (x - left) + low))
    return torch.where(torch.isnan(x), math.nan, y)


interp = define("interp", np.interp, (lambda dy, _y, x, xp, fp: dy * conj(_piece(x, xp, fp)[3]), _by_place, _by_value),
                batch=batching.of_first, torch=_interp, memory=FRESH, spec=types.interpolated)

# -- elementwise


def _angle_cotangent(dy: Cotangent, _y: Array, x: Array) -> Any:
    if getattr(dtype_of(x), "kind", "c" if isinstance(x, complex) else "f") != "c":
        return ZERO
    square = real(x) ** 2 + imag(x) ** 2
    zero = equal(square, 0)
    return where(zero, 0.0, dy * (1j * x) / where(zero, 1, square))


def _angle(x: Any) -> Any:
    x = x.to(tensor_dtypes.inexact_type(x))
    return torch.atan2(x.imag, x.real) if x.is_complex() else torch.atan2(torch.zeros_like(x), x)


angle = define("angle", np.angle, (_angle_cotangent,), batch=batching.of_first, torch=_angle, memory=FRESH,
               spec=types.angle)
# SciPy's i0 differs from NumPy's by rounding
numpy_i0 = elementwise("numpy_i0", np.i0, lambda _y, x: i1(x), on_torch=tensors.number_function("special.i0"),
                       spec=types.floating_array)

# -- exact functions of Python numbers, which raise what math raises; composed of rounded calls they would do neither


def _fsum(*xs: Any) -> Any:
    return math.fsum(xs)


def _nearest(y: Array, a: Array, b: Array) -> Any:
    return rint((a - y) / b)


def _toward(i: int, dy: Cotangent, y: Array, *xs: Any) -> Any:
    return dy * where(equal(y, 0), 0.0, xs[i] / where(equal(y, 0), 1.0, y))


euclidean_norm = define("euclidean_norm", math.hypot, Partials(_toward, pointwise=True),
                        batch=False,
                        torch=lambda *xs: torch.linalg.vector_norm(torch.stack(tensors.together(xs, number=True))),
                        memory=FRESH, spec=types.always(float))
fsum = define("fsum", _fsum, Partials(lambda i, dy, y, *xs: dy, pointwise=True), effects=RAISES,
              batch=False, torch=lambda *xs: torch.stack(tensors.together(xs, number=True)).sum(), memory=FRESH,
              spec=types.always(float))
if hasattr(math, "fma"):  # Python 3.13
    fma = define("fma", math.fma, pointwise(lambda dy, _y, _a, b, _c: dy * b, lambda dy, _y, a, _b, _c: dy * a,
                                            lambda dy, _y, _a, _b, _c: dy), effects=RAISES, batch=False,
                 torch=lambda a, b, c: a * b + c, memory=FRESH, spec=types.always(float))
ieee_remainder = define("ieee_remainder", math.remainder,
                        pointwise(lambda dy, _y, _a, _b: dy, lambda dy, y, a, b: -dy * _nearest(y, a, b)),
                        effects=RAISES, batch=False, torch=lambda a, b: a - torch.round(a / b) * b,
                        memory=FRESH, spec=types.always(float))

# to the nearest number with so many digits: NumPy multiplies first, and so rounds ties that it created
round_number = constant("round_number", builtins.round, batch=False,
                        on_torch=lambda x, ndigits: builtins.round(x.item(), ndigits), spec=types.to_digits)

# -- a Python number. Without an index the array has one element, and `project` reshapes the cotangent

item = define("item", lambda x, *index: np.asarray(x).item(*index),
              (lambda dy, _y, x, *index: sparse(x, dy, index) if index else dy, None, None), tangent=linear_in(0),
              batch=item_members, torch=lambda x, *index: (x.reshape(-1)[int(index[0])] if len(index) == 1
                                                           else x[tuple(map(int, index))]).item(), memory=MOVED,
                                                           spec=types.item)


def _value_by(y: Array, *args: Any, function: str, part: int | None = None, **kwargs: Any) -> Any:
    from pkgutil import resolve_name  # few programs need it, and exported sources contain this text
    found = resolve_name(function)(*args, **kwargs)
    return found if part is None else found[part]


# a library function's result, to the last bit, with the derivatives of `y`, the same function written in ops
value_by = define("value_by", _value_by, Partials(lambda i, dy, y, *args, **kwargs: ZERO if i else dy, pointwise=True),
                  batch=False, torch=tensors.on_host(_value_by), memory=FRESH,
                  spec=types.opaque("the library's function decides"))
