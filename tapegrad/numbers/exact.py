"""exact: the adapters of Fraction, Decimal and mpmath numbers."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from tapegrad.numbers.kinds import Array
from tapegrad.numbers.systems import PRECISION, System, add, functions


def _ratio(x: Any) -> Fraction:
    """Return a number as an exact fraction."""
    if hasattr(x, "man_exp"):  # an mpmath number: sign, mantissa and a power of 2
        sign, digits, power, _ = x._mpf_
        if not digits and power:
            return Fraction(float(x))  # raises for nan and inf
        digits = -int(digits) if sign else int(digits)
        return Fraction(digits * 2**power) if power >= 0 else Fraction(digits, 2**-power)
    return Fraction(x)


def _logarithm(x: Fraction) -> float:
    """Return the logarithm of a fraction as a float, as Python's functions do; nan for a negative one, as NumPy's."""
    return float(np.log(float(x)))


add(Fraction, System(
    lambda x, kind: x if type(x) is Fraction else _ratio(x),
    functions(floor=math.floor, ceil=math.ceil, trunc=math.trunc, rint=round, log=_logarithm, isfinite=lambda x: True,
              isinf=lambda x: False),
    {"real": "real"}, {"conjugate": "conjugate"}))


def _decimal(x: Array, kind: Any = Decimal) -> Decimal:
    """Return a number as a Decimal: integers and floats exactly, a quotient to the precision of the context."""
    if isinstance(x, (int, float, Decimal)):
        return Decimal(x)
    ratio = _ratio(x)
    return Decimal(ratio.numerator) / Decimal(ratio.denominator)


def _integral(rounding: str) -> Any:
    return lambda x: x.to_integral_value(rounding=rounding)


add(Decimal, System(
    _decimal,
    functions(floor=_integral(decimal.ROUND_FLOOR), ceil=_integral(decimal.ROUND_CEILING),
              trunc=_integral(decimal.ROUND_DOWN),
              rint=_integral(decimal.ROUND_HALF_EVEN), isfinite=Decimal.is_finite, isinf=Decimal.is_infinite,
              isnan=Decimal.is_nan, sqrt=Decimal.sqrt, exp=Decimal.exp, log=Decimal.ln, log10=Decimal.log10),
    {"real": "real"},
    {"conjugate": "conjugate", "sqrt": "sqrt", "exp": "exp", "ln": "log", "log10": "log10", "is_nan": "isnan",
     "is_finite": "isfinite",
     "is_infinite": "isinf", "copy_negate": "negative", "copy_abs": "abs"}, precision="decimal precision"))


def _of_decimals() -> tuple[int, str]:
    context = decimal.getcontext()
    return context.prec, context.rounding


PRECISION["decimal precision"] = _of_decimals


# -- mpmath numbers, registered once the user has imported mpmath. Each context has its own subclasses of these

OF_MPMATH = {
    name: name for name in (
        "sqrt", "cbrt", "exp", "expm1", "log", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh",
        "acosh", "atanh", "atan2", "hypot", "floor", "ceil", "isfinite", "isinf", "isnan", "sign")
} | {"rint": "nint"}
"""Ops and the functions of an mpmath context that compute them."""


def _mpmaths(name: str) -> Any:
    def function(*args: Any) -> Any:
        context = next(type(x).context for x in args if hasattr(type(x), "context"))
        return getattr(context, name)(*args)
    return function


def _real(x: Array, kind: Any) -> Any:
    """Return a number as a real number of an mpmath context: floats exactly, a quotient to its precision."""
    return kind.context.convert(x)


def _complex(x: Array, kind: Any) -> Any:
    return kind.context.mpc(kind.context.convert(x))


def _real_literal(x: float, kind: Any) -> Any:
    """Return the number that a float's text denotes, rounded as the context rounds, unlike its own quotients."""
    return kind.context.mpf(repr(float(x)))


def _complex_literal(x: float, kind: Any) -> Any:
    return kind.context.mpc(_real_literal(x, kind))


def register_mpmath(context: Any, real: type, complex_: type) -> None:
    """Register the adapters of mpmath numbers by the contexts' common base classes, and `context`'s precision."""
    PRECISION["mpmath precision"] = lambda: (context.prec, context._prec_rounding[1])
    own = {op: _mpmaths(name) for op, name in OF_MPMATH.items()}
    own["trunc"] = lambda x: own["floor"](x) if x >= 0 else own["ceil"](x)
    shown, methods = {"real": "real", "imag": "imag"}, {"conjugate": "conjugate", "sqrt": "sqrt"}
    add(real, System(_real, functions(**own), shown, methods, precision="mpmath precision", literal=_real_literal))
    add(complex_, System(_complex, functions(**own), shown, methods, is_complex=True, precision="mpmath precision",
                         literal=_complex_literal))
