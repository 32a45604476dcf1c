"""intervals: the adapter for mpmath's intervals, `mpmath.iv`, in which every result encloses the exact one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import iv
from mpmath.ctx_iv import ivmpf

from tapegrad.numbers.systems import PRECISION, System, add, check_decided, functions


def _hull(*xs: Any) -> Any:
    return iv.mpf([min(x.a for x in xs).a, max(x.b for x in xs).b])


def _rising(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the interval extension of a monotonic function, whose values at the ends bound the result."""
    return lambda x: _hull(fn(iv.mpf(x.a)), fn(iv.mpf(x.b)))


def _sign(x: Any) -> Any:
    return iv.mpf([-1 if x.a < 0 else int(x.a > 0), 1 if x.b > 0 else -int(x.b < 0)])


def _sinh(x: Any) -> Any:
    return (iv.exp(x) - iv.exp(-x)) / 2


def _cosh(x: Any) -> Any:
    return (iv.exp(x) + iv.exp(-x)) / 2


def _larger(a: Any, b: Any) -> Any:
    larger = a >= b
    check_decided("greater_equal", larger)
    return a if larger else b


def _equal(a: Any, b: Any) -> Any:
    """Return whether two intervals hold the same number: None where they only overlap. An interval equals itself."""
    return True if a is b else None if (a < b) is None and (a > b) is None and a != b else a == b


def _itself(x: Any) -> Any:
    return x


add(ivmpf, System(
    lambda x, kind: iv.convert(x) if not hasattr(x, "numerator") else iv.mpf(x.numerator) / x.denominator,
    functions(
        sqrt=iv.sqrt, exp=iv.exp, log=iv.log, sin=iv.sin, cos=iv.cos, tan=iv.tan, atan2=iv.atan2,
        sinh=_rising(_sinh), cosh=lambda x: _rising(_cosh)(abs(x)),
        tanh=_rising(lambda x: 1 - 2 / (iv.exp(2 * x) + 1)), atan=_rising(lambda x: iv.atan2(x, iv.mpf(1))),
        asin=_rising(lambda x: iv.atan2(x, iv.sqrt(1 - x * x))),
        acos=_rising(lambda x: iv.atan2(iv.sqrt(1 - x * x), x)),
        asinh=lambda x: iv.log(x + iv.sqrt(x * x + 1)), acosh=lambda x: iv.log(x + iv.sqrt(x * x - 1)),
        atanh=_rising(lambda x: iv.log((1 + x) / (1 - x)) / 2), exp2=lambda x: iv.exp(x * iv.log(2)),
        expm1=lambda x: iv.exp(x) - 1, log1p=lambda x: iv.log(1 + x), log2=lambda x: iv.log(x) / iv.log(2),
        log10=lambda x: iv.log(x) / iv.log(10), hypot=lambda x, y: iv.sqrt(x**2 + y**2), sign=_sign,
        square=lambda x: x**2, maximum=_larger, minimum=lambda a, b: -_larger(-a, -b), equal=_equal,
        not_equal=lambda a, b: None if (same := _equal(a, b)) is None else not same, real=_itself,
        conjugate=_itself, imag=lambda x: iv.mpf(0)),
    precision="interval precision", partial=True, literal=lambda x, kind: iv.mpf(repr(x))))
PRECISION["interval precision"] = lambda: iv.prec
