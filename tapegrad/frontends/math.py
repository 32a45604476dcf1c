"""How the functions of `math` are written in ops."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.rules.op import Op, Traced, tracer_of
from tapegrad.rules.registry import CONSTANT, leave, register
from tapegrad.trace.dispatch import plain as value_of
from tapegrad.trace.interposition import as_python

for _fn, _op in [
    (math.acos, ops.acos), (math.acosh, ops.acosh), (math.asin, ops.asin), (math.asinh, ops.asinh),
    (math.atan, ops.atan),
    (math.atan2, ops.atan2), (math.atanh, ops.atanh), (math.cos, ops.cos), (math.cosh, ops.cosh), (math.exp, ops.exp),
    (math.expm1, ops.expm1), (math.fmod, ops.fmod), (math.log10, ops.log10), (math.log1p, ops.log1p),
    (math.log2, ops.log2), (math.sin, ops.sin), (math.sinh, ops.sinh), (math.sqrt, ops.sqrt), (math.tan, ops.tan),
    (math.tanh, ops.tanh),
    (math.copysign, ops.copysign), (math.radians, ops.deg2rad), (math.degrees, ops.rad2deg), (math.ldexp, ops.ldexp),
    (math.frexp, ops.frexp), (math.modf, ops.modf), (math.pow, ops.float_power), (math.erf, ops.erf),
    (math.erfc, ops.erfc),
    (math.isfinite, ops.isfinite), (math.isinf, ops.isinf), (math.isnan, ops.isnan), (math.nextafter, ops.nextafter),
]:
    register(_fn, _op)
if hasattr(math, "exp2"):  # Python 3.11
    register(math.exp2, ops.exp2)  # type: ignore[attr-defined]
    register(math.cbrt, ops.cbrt)  # type: ignore[attr-defined]
if hasattr(math, "fma"):  # Python 3.13
    register(math.fma, ops.fma)


# For traced numbers these return plain, guarded integers: Python calls the number's own __floor__, __index__ …
CONSTANT.update([math.ceil, math.floor, math.trunc, math.comb, math.factorial, math.gcd, math.isqrt, math.lcm,
                 math.perm])
leave(math.ulp, why="needs a plain number: a traced one raises; np.spacing is recorded")


def means(fn: Callable[..., Any], *, constant: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated composite for `fn`; `fn` itself is called first, so that it raises its own errors."""
    numbers = fn is not math.prod  # prod multiplies as Python does and converts nothing to float

    def decorate(composite: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(composite)
        def checked(*args: Any, **kwargs: Any) -> Any:
            fn(*[[plain(x) for x in arg] if isinstance(arg, (list, tuple)) else plain(arg) for arg in args], **kwargs)
            if numbers:
                args = tuple(tuple(map(number, arg)) if isinstance(arg, (list, tuple)) else number(arg) for arg in args)
            return composite(*args, **kwargs)
        register(fn, checked, constant=constant)
        return checked
    return decorate


def number(x: Any) -> Any:
    """Return a NumPy number as the Python number that `math` computes with; a sequence as it is."""
    if np.ndim(plain(x)):
        return x  # fsum and dist iterate over it
    return float(x) if isinstance(x, np.floating) and not isinstance(x, Traced) else as_python(x)


def recorded(op: Op, name: str, *args: Any) -> Any:
    """Record an op with the value, a Python float, that the function of `math` returns."""
    tracer = tracer_of(args)
    return tracer.record(op, args, {}, getattr(math, name)(*[value_of(x, tracer) for x in args]))


@means(math.fabs)
def fabs(x: Array) -> Any:
    return ops.abs(x if isinstance(plain(x), float) else x * 1.0)


@means(math.log)
def log(x: Any, base: Any = None) -> Any:
    return recorded(ops.log, "log", x) if base is None else math.log(x) / math.log(base)


@means(math.hypot)
def hypot(*coordinates: Any) -> Any:
    if len(coordinates) == 2:
        return recorded(ops.hypot, "hypot", *coordinates)
    return recorded(ops.euclidean_norm, "hypot", *coordinates) if coordinates else 0.0


@means(math.dist)
def dist(p: Array, q: Array) -> Any:
    return hypot(*[_double(a) - _double(b) for a, b in zip(p, q, strict=True)])


def _double(x: Any) -> Any:
    """Return a NumPy floating-point number as a float: `math` subtracts in double precision."""
    return x.item() if getattr(dtype_of(x), "kind", "") == "f" else x


@means(math.fsum)
def fsum(seq: Any) -> Any:
    tracer = tracer_of(seq)
    if tracer is None:  # an empty traced array
        return 0.0
    return tracer.record(ops.fsum, tuple(seq), {}, math.fsum(value_of(x, tracer) for x in seq))


@means(math.prod)
def prod(iterable: Any, *, start: Any = 1) -> Any:
    for x in iterable:
        start = start * x
    return start


@means(math.isclose, constant=True)
def isclose(a: Array, b: Array, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    if a == b:
        return True
    return abs(a - b) != math.inf and abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


@means(math.remainder)
def remainder(x: Array, y: Array) -> Any:
    return recorded(ops.ieee_remainder, "remainder", x, y)


if hasattr(math, "sumprod"):  # Python 3.12
    @means(math.sumprod)  # type: ignore[attr-defined]
    def sumprod(p: Array, q: Array, /) -> Any:
        return fsum([a * b for a, b in zip(p, q, strict=True)])
