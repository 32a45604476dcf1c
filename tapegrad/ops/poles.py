"""poles: derivatives that are infinite at a point, where a zero cotangent stops.

So a pole is harmless in what nobody asks: `np.where(x > 0, np.sqrt(x), 0.0)` has the derivative 0 at 0, and not nan.
"""

from __future__ import annotations

import cmath
import operator
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import is_complex_number
from tapegrad.rules import batching
from tapegrad.rules.facts import FRESH, Partial, pointwise
from tapegrad.rules.op import OPS
from tapegrad.rules.registry import define
from tapegrad.rules.types.elementwise import by_ufunc


def _has_infinity(x: Any) -> bool:
    """True for numbers of a kind that has an infinity; exact ones have none."""
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


def _multiply_no_nan(dy: Any, derivative: Any) -> Any:
    kind = type(derivative)
    if kind is float or kind is np.float64 or kind is complex:
        finite = cmath.isfinite(derivative)
    elif kind is np.ndarray and (derivative.dtype == np.float64 or derivative.dtype == np.float32):
        finite = cmath.isfinite(np.vdot(derivative, derivative))  # faster than to look at each
    else:
        finite = not _has_infinity(derivative)
    if finite:
        return dy * derivative
    if not isinstance(derivative, (np.ndarray, np.generic)):  # of Python's, which widens no array
        if isinstance(dy, (float, complex)):
            return dy * (derivative if dy else 0.0)
        with np.errstate(invalid="ignore"):
            y = np.asarray(dy * derivative)
        return np.where(dy != 0, y, y.dtype.type(0))[()]
    return dy * np.where((dy != 0) | np.isfinite(derivative), derivative, 0.0)[()]


def _multiply_no_nan_tensors(dy: Any, derivative: Any) -> Any:
    y = dy * derivative
    if tensors.is_tensor(dy):
        return y.masked_fill(dy == 0, 0)
    return y if dy else torch.zeros_like(y)


def _conj(x: Any) -> Any:
    kind = getattr(dtype_of(x), "kind", None)  # a Python number has none
    is_complex = kind == "c" if kind is not None else is_complex_number(plain(x))
    return OPS["conjugate"](x) if is_complex else x


multiply_no_nan = define("multiply_no_nan", _multiply_no_nan, pointwise(
    lambda dz, _y, _dy, d: multiply_no_nan(dz, _conj(d)), lambda dz, _y, dy, _d: multiply_no_nan(_conj(dy), dz),
    direct=True), torch=tensors.elementwise(np.multiply, _multiply_no_nan_tensors, numbers=True), memory=FRESH,
    batch=batching.elementwise, spec=by_ufunc(np.multiply, operator.mul))
"""The product of a cotangent and a derivative: 0 where the cotangent is 0, whatever the derivative."""
multiply_no_nan.pythonic = True  # its implementation serves every type of number


def with_poles(derivative: Callable[..., Any], poles: Callable[..., bool] | bool,
               conj: Callable[[Any], Any]) -> Partial:
    """Return the partial that multiplies by a derivative which has poles, or may have with these arguments."""
    def partial(dy: Any, y: Any, *x: Any) -> Any:
        found = conj(derivative(y, *x))
        return multiply_no_nan(dy, found) if poles is True or poles(*x) else dy * found  # type: ignore[operator]
    return update_wrapper(partial, derivative, (), ())
