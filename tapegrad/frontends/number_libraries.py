"""number_libraries: adapters for the numbers of SymPy, uncertainties, gmpy2, pint and Astropy, each added once the user
has imported the library. np.sin, math.sqrt and their kin of such a number are computed by the library's own functions.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from tapegrad import ops
from tapegrad.numbers.quantities import Quantities, add_quantities
from tapegrad.numbers.systems import OWNERS, System, add, functions
from tapegrad.tree.nodes import numbers_of

_ELEMENTARY = ("sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
               "acosh", "atanh", "atan2")


def _own(library: Any, *names: str, **others: Any) -> dict[str, Any]:
    """Return the functions that compute ops: the library's functions of the same names, and `others`."""
    return functions(**{name: getattr(library, name) for name in (*_ELEMENTARY, *names)}, **others)


def _sympy(sympy: Any) -> None:
    def expression(x: Any, kind: Any) -> Any:
        return sympy.sympify(x)

    def itself(x: Any) -> Any:
        return x
    own = _own(
        sympy, "cbrt", "sign", "floor", "erf", "erfc", "gamma", "digamma", ceil=sympy.ceiling, maximum=sympy.Max,
        minimum=sympy.Min, gammaln=sympy.loggamma, log2=lambda x: sympy.log(x, 2), log10=lambda x: sympy.log(x, 10),
        exp2=lambda x: 2**x, expm1=lambda x: sympy.exp(x) - 1, log1p=lambda x: sympy.log(1 + x),
        hypot=lambda x, y: sympy.sqrt(x * x + y * y), real=itself, conjugate=itself, imag=lambda x: sympy.Integer(0),
        isnan=lambda x: x is sympy.nan, where=lambda c, a, b: sympy.Piecewise((a, c), (b, True)))
    add(sympy.Expr, System(expression, own, declined=sympy.SympifyError))


def _uncertainties(uncertainties: Any) -> None:
    umath = importlib.import_module("uncertainties.umath")
    kind = uncertainties.core.AffineScalarFunc

    def exact(x: Any, _: Any) -> Any:
        return x if isinstance(x, kind) else kind(float(x), uncertainties.core.LinearCombination({}))
    add(kind, System(exact, _own(
        umath, "log10", "log1p", "expm1", "hypot", "erf", "erfc", "gamma", gammaln=umath.lgamma,
        conjugate=lambda x: x, real=lambda x: x, isnan=umath.isnan, isinf=umath.isinf)))


def _gmpy2(gmpy2: Any) -> None:
    add(type(gmpy2.mpq()), System(lambda x, kind: gmpy2.mpq(x), functions(
        isfinite=lambda x: True, floor=math.floor, ceil=math.ceil, trunc=math.trunc)))
    add(type(gmpy2.mpfr()), System(lambda x, kind: gmpy2.mpfr(x), _own(
        gmpy2, "cbrt", "exp2", "expm1", "log2", "log10", "log1p", "hypot", "erf", "erfc", "gamma", "digamma", "floor",
        "ceil", "trunc", isnan=gmpy2.is_nan, isinf=gmpy2.is_infinite, isfinite=gmpy2.is_finite)))


def _pint(pint: Any) -> None:
    def make(x: Any, unit: Any) -> Any:
        return unit._REGISTRY.Quantity(x, unit)
    add_quantities(pint.Quantity, Quantities(
        lambda x: x.magnitude, lambda x: x.units, make,
        lambda x, unit: (x if isinstance(x, pint.Quantity) else make(x, unit**0)).to(unit), lambda unit: unit**0))


def _astropy(units: Any) -> None:
    def make(x: Any, unit: Any) -> Any:
        if not hasattr(type(x), "_tracer"):
            return units.Quantity(x, unit)
        made = ops.array(x).view(units.Quantity)
        made._set_unit(unit)
        return made
    add_quantities(units.Quantity, Quantities(
        numbers_of, lambda x: x.unit, make,
        lambda x, unit: (x if isinstance(x, units.Quantity) else make(x, units.one)).to(unit), lambda unit: units.one))
    OWNERS.update(kind for kind in vars(units.core).values() if isinstance(kind, type)
                  and issubclass(kind, units.UnitBase))


_LIBRARIES = {"sympy": _sympy, "uncertainties": _uncertainties, "gmpy2": _gmpy2, "pint": _pint,
              "astropy.units": _astropy}


def added(name: str) -> None:
    """Add the adapters for the numbers of a library that has been imported."""
    _LIBRARIES[name](importlib.import_module(name))
