"""poles: derivatives that are infinite at a point, where a zero cotangent stops.

A pole is harmless where its value is not used: `np.where(x > 0, np.sqrt(x), 0.0)` has the derivative 0 at 0, and not
nan.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import dtype_of, kind_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import is_complex_number
from tapegrad.rules import batching
from tapegrad.rules.facts import FRESH, Partial, pointwise
from tapegrad.rules.op import OPS
from tapegrad.rules.registry import define
from tapegrad.rules.types.elementwise import by_ufunc

_vdot, _count = np.vdot, np.count_nonzero  # bound here, because a trace replaces them in NumPy


def _has_infinity(x: Any) -> bool:
    """True for numbers of a kind that has an infinity; exact ones have none."""
    return isinstance(x, (float, complex)) or kind_of(x) in ("f", "c")


def _is_finite(x: Any) -> bool:
    """Return whether all numbers are known to be finite, without a test of each."""
    kind = type(x)
    if kind is float or kind is np.float64 or kind is complex:
        return cmath.isfinite(x)
    if kind is np.ndarray and (x.dtype == np.float64 or x.dtype == np.float32):
        return cmath.isfinite(_vdot(x, x))
    return False


def _nowhere_zero(x: Any) -> bool:
    """Return whether all numbers are known to be finite and not 0."""
    if type(x) is np.ndarray:
        return _is_finite(x) and bool(_count(x) == x.size if x.size < 1024 else x.all())  # the quicker by the size
    return bool((_is_finite(x) or type(x) is int) and x)


def _multiply_no_nan(dy: Any, derivative: Any) -> Any:
    if _is_finite(derivative) or not _has_infinity(derivative):
        return dy * derivative
    if not isinstance(derivative, (np.ndarray, np.generic)):  # a Python number, which widens no array
        if isinstance(dy, (float, complex)):
            return dy * (derivative if dy else 0.0)
        with np.errstate(invalid="ignore"):
            y = np.asarray(dy * derivative)
        return np.where(dy != 0, y, y.dtype.type(0))[()]
    return dy * np.where((dy != 0) | np.isfinite(derivative), derivative, 0.0)[()]


def _product_no_nan(a: Any, b: Any) -> Any:
    if isinstance(a, (np.ndarray, np.generic)) or isinstance(b, (np.ndarray, np.generic)):
        with np.errstate(invalid="ignore"):
            y = np.asarray(a * b)
        if _is_finite(y) or y.dtype.kind not in "fc":
            return y[()]
        return np.where((a == 0) | (b == 0), y.dtype.type(0), y)[()]
    return a * b if a and b else _multiply_no_nan(b, a) if a else _multiply_no_nan(a, b)


def _divide_no_nan(dy: Any, x: Any) -> Any:
    if isinstance(dy, (np.ndarray, np.generic)) or isinstance(x, (np.ndarray, np.generic)):
        with np.errstate(divide="ignore", invalid="ignore"):
            y = np.asarray(dy / x)
        return y[()] if _is_finite(y) or y.dtype.kind not in "fc" else np.where(dy != 0, y, y.dtype.type(0))[()]
    return dy / (x if dy else 1)


def _stopped(y: Any, *factors: Any) -> Any:
    """Return a tensor, with 0 where one of the factors is 0."""
    for x in factors:
        if tensors.is_tensor(x):
            y = y.masked_fill(x == 0, 0)
        elif not x:
            y = torch.zeros_like(y)
    return y


def conj(x: Any) -> Any:
    """Return the complex conjugate, a real value unchanged. In exported tapes it is the `conj` of `elementwise`."""
    if type(x) is float or type(x) is np.float64 or (type(x) is np.ndarray and x.dtype.kind == "f"):
        return x
    dtype = dtype_of(x)
    is_complex = getattr(dtype, "kind", None) == "c" if dtype is not None else is_complex_number(plain(x))
    return OPS["conjugate"](x) if is_complex else x


def goes_on(dy: Any, derivative: Any) -> Any:
    """Return where the product of a cotangent and a derivative is not stopped by a pole, None if that is everywhere."""
    if _is_finite(derivative) or not _has_infinity(plain(derivative)):
        return None
    return OPS["logical_or"](OPS["not_equal"](dy, 0), OPS["isfinite"](derivative))


def _asked(dy: Any, derivative: Any) -> Any:
    """Return a derivative, and 0 at a pole where the cotangent dy is 0: the product is 0 around there, so that its own
    derivatives by dy are 0 too.
    """
    where = goes_on(dy, derivative)
    return derivative if where is None else OPS["where"](where, derivative, 0.0)


def _divided(dz: Any, _z: Any, dy: Any, x: Any) -> Any:
    if _has_infinity(plain(x)) and not _nowhere_zero(x):
        x = OPS["where"](OPS["logical_or"](OPS["not_equal"](dy, 0), OPS["not_equal"](x, 0)), x, math.inf)
    return divide_no_nan(dz, conj(x))


multiply_no_nan = define("multiply_no_nan", _multiply_no_nan, pointwise(
    lambda dz, _y, dy, d: multiply_no_nan(dz, conj(_asked(dy, d))),
    lambda dz, _y, dy, _d: product_no_nan(conj(dy), dz), direct=True),
    torch=tensors.elementwise(np.multiply, lambda dy, d: _stopped(dy * d, dy), numbers=True), memory=FRESH,
    batch=batching.elementwise, spec=by_ufunc(np.multiply, operator.mul))
"""The product of a cotangent and a derivative: 0 where the cotangent is 0, whatever the derivative."""
product_no_nan = define("product_no_nan", _product_no_nan, pointwise(
    lambda dz, _y, a, b: product_no_nan(dz, conj(_asked(a, b))),
    lambda dz, _y, a, b: product_no_nan(dz, conj(_asked(b, a))), direct=True),
    torch=tensors.elementwise(np.multiply, lambda a, b: _stopped(a * b, a, b), numbers=True), memory=FRESH,
    batch=batching.elementwise, spec=by_ufunc(np.multiply, operator.mul))
"""The product of two cotangents, of gradients of gradients: 0 where either is 0, whatever the other."""
divide_no_nan = define("divide_no_nan", _divide_no_nan, pointwise(
    _divided,
    lambda dz, z, _dy, x: -product_no_nan(dz, conj(divide_no_nan(z, x))), direct=True),
    torch=tensors.elementwise(np.divide, lambda dy, x: _stopped(dy / x, dy), numbers=True), memory=FRESH,
    batch=batching.elementwise, spec=by_ufunc(np.divide, operator.truediv))
"""A cotangent divided by a number: 0 where the cotangent is 0, whatever the number."""
for _op in (multiply_no_nan, product_no_nan, divide_no_nan):
    _op.pythonic = True  # its implementation serves every type of number


def times(dy: Any, derivative: Any) -> Any:
    """Return the product of a cotangent and a derivative: `multiply_no_nan`, unless that is known to be finite."""
    return dy * derivative if _is_finite(derivative) else multiply_no_nan(dy, derivative)


def over(dy: Any, _y: Any, _a: Any, b: Any) -> Any:
    """Return the cotangent of a dividend: `divide_no_nan`, unless b is known to be finite and nowhere 0."""
    b = conj(b)
    return dy / b if _nowhere_zero(b) else divide_no_nan(dy, b)


def by_divisor(dy: Any, y: Any, _a: Any, b: Any) -> Any:
    """Return the cotangent of a divisor, which is 0 where that of the quotient y is 0."""
    is_one = type(_a) in (int, float) and _a == 1
    if _is_finite(y):  # inlined, so that NumPy reuses the memory of the quotient
        dx = -(dy * conj(y * y if is_one else y / b))
        if _is_finite(dx):
            return dx
    return -multiply_no_nan(dy, conj(squared(y) if is_one else y / b))


def squared(y: Any) -> Any:
    """Return the square of what may be infinite, in a derivative: for a zero cotangent y * y would give nan there."""
    return multiply_no_nan(y, y)


def with_poles(derivative: Callable[..., Any], poles: Callable[..., bool] | bool) -> Partial:
    """Return the partial that multiplies by a derivative that has poles, or may have some for these arguments. Several
    factors are multiplied one by one, so that in a gradient of a gradient a zero stops at each.
    """
    def partial(dy: Any, y: Any, *x: Any) -> Any:
        found = derivative(y, *x)
        if type(found) is tuple:
            for factor in found:
                dy = times(dy, conj(factor))
            return dy
        found = conj(found)
        return times(dy, found) if poles is True or poles(*x) else dy * found  # type: ignore[operator]
    return update_wrapper(partial, derivative, (), ())
