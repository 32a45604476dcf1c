"""Elementwise ops: arithmetic, powers, exponentials, trigonometry, rounding, comparison, logic, min and max.

An entry is one line: name, implementation, the derivative by each argument as a formula of output and inputs (a number
where it is constant), and the foreign functions that mean the same. On tensors torch's function of its name is the
implementation, unless `on_torch` names another, with the dtypes of NumPy's ufunc. `dx = dy * conj(derivative)` is
computed in one place; broadcasting is undone elsewhere. A leading underscore marks an argument that the rule does not
use and that is not kept as a residual.

Conventions at kinks, the same on every backend: abs'(0) = sign(0) = 0; maximum, minimum and clip's bounds share
equally among ties; rounding and sign are constant; hypot'(0, 0) = atan2'(0, 0) = 0; x**0 has derivative 0 by x,
0**p has derivative 0 by p. A zero cotangent stops at a pole (see poles).
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from tapegrad.numbers import tensor_dtypes, tensors
from tapegrad.numbers.cotangents import ZERO, ZeroTangent, dtype_of
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import is_complex_number, system
from tapegrad.ops.poles import by_divisor, over, squared, with_poles
from tapegrad.ops.promotion import exactly, number_like
from tapegrad.rules import batching, types
from tapegrad.rules.facts import CONSTANT, FRESH, MOVED, RAISES, VIEW, Partial, Push, linear_in, pointwise
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define

LN2, LN10 = math.log(2.0), math.log(10.0)


def conj(x: Any) -> Any:
    """Return the complex conjugate; a real value is returned as it is."""
    if type(x) is float or type(x) is np.float64:
        return x
    if type(x) is np.ndarray:
        return conjugate(x) if x.dtype.kind == "c" else x
    return conjugate(x) if is_complex(x) else x


def is_complex(x: Array) -> bool:
    """True for a complex number, array or proxy of one."""
    dtype = dtype_of(x)
    return getattr(dtype, "kind", None) == "c" if dtype is not None else is_complex_number(plain(x))


def is_inexact(dtype: Any) -> bool:
    """True for a dtype of real or complex numbers, including those of torch alone."""
    return letter(dtype if hasattr(dtype, "kind") else np.dtype(dtype)) in INEXACT


def chain(derivative: Callable[..., Any] | float, poles: Callable[..., bool] | bool = False) -> Partial:
    """Return the partial that multiplies by a derivative, a formula of (y, *args)."""
    if not callable(derivative):
        return (lambda dy, *_: dy) if derivative == 1 else (lambda dy, *_: -dy if derivative == -1 else dy * derivative)
    if poles:
        return with_poles(derivative, poles)
    # it reads the arguments that the derivative reads: see residuals
    return update_wrapper(lambda dy, y, *x: dy * conj(derivative(y, *x)), derivative, (), ())


def of_tensors(name: str, impl: Any, means: Any = (), on_torch: Any = None) -> Any:
    """Return the implementation for tensors, with the dtypes of the ufunc among `impl` and `means`."""
    ufunc = next((fn for fn in (impl, *means) if isinstance(fn, np.ufunc)), None)
    if ufunc is None:
        return on_torch
    if type(impl) is not np.ufunc:  # a Python operator
        return tensors.elementwise(ufunc, on_torch or impl, numbers=True)
    return tensors.elementwise(ufunc, on_torch or name)


def elementwise(name: str, impl: Callable[..., Any], *derivatives: Callable[..., Any] | float,
                means: tuple[Any, ...] = (), python: Callable[..., Any] | None = None,
                on_torch: Callable[..., Any] | str | None = None, tangent: Push | None = None,
                spec: types.Family | None = None, poles: Any = False) -> Op:
    """Define an op by the derivatives with respect to its arguments; `poles` is for all, or a tuple with one each."""
    each = poles if isinstance(poles, tuple) else [poles] * len(derivatives)
    rule = pointwise(*map(chain, derivatives, each), direct=True)
    return define(name, impl, rule, means=means, python=python, tangent=tangent,
                  torch=of_tensors(name, impl, means, on_torch), memory=FRESH, spec=spec)


def constant(name: str, impl: Callable[..., Any], *means: Any, on_torch: Callable[..., Any] | str | None = None,
             **facts: Any) -> Op:
    """Define an op whose output is locally constant or not differentiable."""
    return define(name, impl, means=means, rule=CONSTANT, memory=FRESH,
                  torch=of_tensors(name, impl, means, on_torch), **facts)


def _ordered(name: str, comparison: Callable[..., Any], ufunc: np.ufunc) -> Op:
    """Define a comparison; complex numbers are compared on the host, since torch does not."""
    return define(name, comparison, means=(ufunc, comparison), rule=CONSTANT, batch=batching.elementwise,
                  torch=tensors.of_reals(tensors.exact(of_tensors(name, comparison, (ufunc,))), ufunc))


def _equality(name: str, comparison: Callable[..., Any], ufunc: np.ufunc) -> Op:
    return define(name, comparison, means=(ufunc, comparison), rule=CONSTANT, batch=batching.elementwise,
                  torch=tensors.exact(of_tensors(name, comparison, (ufunc,))))


# -- arithmetic. Python's operators are the implementation: they serve every type of number.

add = elementwise("add", operator.add, 1, 1, means=(np.add, operator.add))
subtract = elementwise("subtract", operator.sub, 1, -1, means=(np.subtract, operator.sub),
                       tangent=lambda ts, *_: ts[0] if ts[1] is None else -ts[1] if ts[0] is None else subtract(*ts))
multiply = define("multiply", operator.mul, pointwise(
    lambda dy, _y, _a, b: dy * conj(b), lambda dy, _y, a, _b: dy * conj(a), direct=True),
                  means=(np.multiply, operator.mul), torch=of_tensors("multiply", operator.mul, (np.multiply,)))
divide = define("divide", operator.truediv, pointwise(over, by_divisor, direct=True),
                means=(np.divide, operator.truediv), torch=of_tensors("divide", operator.truediv, (np.divide,)))
negative = elementwise("negative", operator.neg, -1, means=(np.negative, operator.neg))
positive = elementwise("positive", operator.pos, 1, means=(np.positive, operator.pos))
reciprocal = elementwise("reciprocal", np.reciprocal, lambda y, _x: -squared(y), means=(np.reciprocal,), poles=True)


def _of_integers(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make division by the integer 0 give 0, as in NumPy; torch raises, or its result depends on the device."""
    def divided(a: Any, b: Any) -> Any:
        if any(x.is_floating_point() if tensors.is_tensor(x) else not isinstance(x, int) for x in (a, b)):
            return fn(a, b)
        if not tensors.is_tensor(b):
            return fn(a, b) if b else torch.zeros_like(a)
        return torch.where(b == 0, 0, fn(a, torch.where(b == 0, 1, b)))
    return divided


floor_divide = constant("floor_divide", operator.floordiv, np.floor_divide, operator.floordiv,
                        on_torch=_of_integers(operator.floordiv), batch=batching.elementwise)


def _quotient(a: Array, b: Array) -> Any:
    # Decimal's remainder has the sign of `a`, and its quotients are rounded
    if system(a) is not None or system(b) is not None:
        return rint((a - a % b) / b)
    return floor(divide(a, b))


remainder = elementwise("remainder", operator.mod, 1, lambda _y, a, b: -_quotient(a, b),
                        means=(np.remainder, operator.mod), on_torch=_of_integers(operator.mod))
fmod = elementwise("fmod", np.fmod, 1, lambda _y, a, b: -trunc(divide(a, b)), means=(np.fmod,), python=math.fmod)
square = elementwise("square", np.square, lambda _y, x: 2 * x, means=(np.square,))


def _by_base(_y: Array, x: Array, p: Any) -> Any:
    if type(p) is int and p == 2:
        # the commonest power, and pow is slow; for an array the sum gives the same numbers in half the time
        return x + x if type(x) is np.ndarray and x.dtype.kind == "f" else 2 * x
    if isinstance(p, (int, float)) and not hasattr(p, "shape") and plain(p) is p:
        return p * x ** (p - 1) if p else 0
    # for 0 and nan only: elsewhere the slope at p = 0 still grows with p, by 1 / x
    flat = logical_and(equal(p, 0), logical_or(equal(x, 0), not_equal(x, x)))
    # a float: `where` turns Python integers into NumPy's, which overflow and have no negative powers
    return where(flat, 0.0, p * x ** where(flat, 1.0, p - 1))


def _by_exponent(y: Array, x: Array, _p: Any) -> Any:
    if system(y) is not None:
        return _exactly_by_exponent(y, number_like(y, x))  # the logarithm of an integer would be a float
    base = where(equal(x, 0), 1.0, x)
    return where(equal(x, 0), 0.0, y * log(base + 0j if is_complex(y) and not is_complex(x) else base))


def _exactly_by_exponent(y: Array, x: Array) -> Any:
    try:
        factor = log(where(equal(x, 0), 1, x))
    except ArithmeticError:  # Decimal raises for a negative number, where others give nan
        factor = number_like(y, math.nan)
    if is_complex(factor) and not is_complex(y):
        factor = number_like(y, math.nan)
    return where(equal(x, 0), 0.0, y * factor)


def _has_pole(_x: Array, p: Any) -> bool:
    """True unless no derivative by the base has a pole at 0: the exponent is a natural number."""
    return not (type(p) in (int, float) and p >= 1 and p % 1 == 0)


pow = elementwise("pow", operator.pow, _by_base, _by_exponent, means=(np.power, operator.pow), spec=types.power,
                  poles=(_has_pole, True))  # by the exponent: the logarithm of the base, for every exponent
float_power = elementwise("float_power", np.float_power, _by_base, _by_exponent, means=(np.float_power,),
                          python=math.pow, poles=(_has_pole, True))

# -- powers, exponentials, logarithms


def _ln2(y: Array) -> Any:
    return LN2 if system(y) is None else log(number_like(y, 2))


def _ln10(y: Array) -> Any:
    return LN10 if system(y) is None else log(number_like(y, 10))


sqrt = elementwise("sqrt", np.sqrt, lambda y, _x: exactly(0.5, y) / y, means=(np.sqrt,), python=math.sqrt, poles=True)


def _cbrt(x: Array) -> Any:
    y = torch.sgn(x) * torch.abs(x) ** (1 / 3)
    better = y - (y * y * y - x) / (3 * y * y)  # a Newton step: 1 / 3 is rounded
    return torch.where(torch.isfinite(better), better, y)


cbrt = elementwise("cbrt", np.cbrt, lambda y, _x: 1 / (3 * y * y), means=(np.cbrt,), on_torch=_cbrt, poles=True)
exp = elementwise("exp", np.exp, lambda y, _x: y, means=(np.exp,), python=math.exp)
# Python 3.11
exp2 = elementwise("exp2", np.exp2, lambda y, _x: y * _ln2(y), means=(np.exp2,), python=getattr(math, "exp2", None))
expm1 = elementwise("expm1", np.expm1, lambda y, _x: y + 1, means=(np.expm1,), python=math.expm1)
log = elementwise("log", np.log, lambda _y, x: 1 / x, means=(np.log,), python=math.log, poles=True)
log2 = elementwise("log2", np.log2, lambda _y, x: 1 / (x * _ln2(x)), means=(np.log2,), python=math.log2, poles=True)
log10 = elementwise("log10", np.log10, lambda _y, x: 1 / (x * _ln10(x)), means=(np.log10,), python=math.log10,
                    poles=True)
log1p = elementwise("log1p", np.log1p, lambda _y, x: 1 / (1 + x), means=(np.log1p,), python=math.log1p, poles=True)
logaddexp = elementwise("logaddexp", np.logaddexp, lambda y, a, _b: exp(a - y), lambda y, _a, b: exp(b - y),
                        means=(np.logaddexp,))
logaddexp2 = elementwise("logaddexp2", np.logaddexp2, lambda y, a, _b: exp2(a - y), lambda y, _a, b: exp2(b - y),
                         means=(np.logaddexp2,))

# -- trigonometric and hyperbolic functions, and their inverses

sin = elementwise("sin", np.sin, lambda _y, x: cos(x), means=(np.sin,), python=math.sin)
cos = elementwise("cos", np.cos, lambda _y, x: -sin(x), means=(np.cos,), python=math.cos)
tan = elementwise("tan", np.tan, lambda y, _x: 1 + y * y, means=(np.tan,), python=math.tan)
# complex derivatives use the result, which has the side of a branch cut: 1 - x * x has lost the sign of a zero
asin = elementwise("asin", np.asin, lambda y, x: 1 / cos(y) if is_complex(x) else 1 / sqrt(1 - x * x), means=(np.asin,),
                   python=math.asin, poles=True)
acos = elementwise("acos", np.acos, lambda y, x: -1 / sin(y) if is_complex(x) else -1 / sqrt(1 - x * x),
                   means=(np.acos,), python=math.acos, poles=True)
atan = elementwise("atan", np.atan, lambda _y, x: 1 / (1 + x * x), means=(np.atan,), python=math.atan)
sinh = elementwise("sinh", np.sinh, lambda _y, x: cosh(x), means=(np.sinh,), python=math.sinh)
cosh = elementwise("cosh", np.cosh, lambda _y, x: sinh(x), means=(np.cosh,), python=math.cosh)
tanh = elementwise("tanh", np.tanh, lambda y, _x: 1 - y * y, means=(np.tanh,), python=math.tanh)
asinh = elementwise("asinh", np.asinh, lambda y, x: 1 / cosh(y) if is_complex(x) else 1 / sqrt(x * x + 1),
                    means=(np.asinh,), python=math.asinh)
acosh = elementwise("acosh", np.acosh,
                    lambda y, x: 1 / sinh(y) if is_complex(x) else (1 / sqrt(x - 1), 1 / sqrt(x + 1)),
                    means=(np.acosh,), python=math.acosh, poles=True)
atanh = elementwise("atanh", np.atanh, lambda _y, x: 1 / (1 - x * x), poles=True, means=(np.atanh,), python=math.atanh)


def _square_length(a: Array, b: Array) -> Any:
    s = a * a + b * b
    return where(equal(s, 0), 1, s)


atan2 = elementwise("atan2", np.atan2, lambda _y, a, b: b / _square_length(a, b),
                    lambda _y, a, b: -a / _square_length(a, b), means=(np.atan2,), python=math.atan2)
hypot = elementwise("hypot", np.hypot, lambda y, a, _b: a / where(equal(y, 0), 1, y),
                    lambda y, _a, b: b / where(equal(y, 0), 1, y), means=(np.hypot,), python=math.hypot)


@functools.cache
def _nodes(count: int) -> list[tuple[float, float]]:
    """Return the nodes and weights of the Gauss-Legendre quadrature of [0, 1]."""
    return [((1 + t) / 2, w / 2)
            for t, w in zip(*(part.tolist() for part in np.polynomial.legendre.leggauss(count)), strict=True)]


def _sinc_derivative(xp: Any, x: Array, n: int) -> Any:
    """Return the n-th derivative of sinc, π^n times the integral over t in [0, 1] of t^n cos^(n)(t z), where z = π x.

    For large z it uses the recurrence z g_n = sin^(n)(z) - n g_(n-1), which multiplies errors by n / z, less than 1
    there.
    """
    z = xp.asarray(math.pi * x)
    near = xp.abs(z) <= n + 1
    far = xp.where(near, 1, z)
    waves = xp.sin(far), xp.cos(far)
    g = waves[0] / far
    for k in range(1, n + 1):
        g = ((-1) ** (k // 2) * waves[k % 2] - k * g) / far
    wave, sign = (xp.sin if n % 2 else xp.cos), (-1) ** ((n + 1) // 2)
    inside = xp.where(near, z, 0)
    return math.pi ** n * xp.where(near, sign * builtins.sum(w * t ** n * wave(t * inside)
                                                             for t, w in _nodes(16 + n)), g)


sinc = elementwise("sinc", np.sinc, lambda _y, x: sinc_derivative(x, n=1), means=(np.sinc,),
                   on_torch=tensors.number_function("sinc"), spec=types.floating)
sinc_derivative = define("sinc_derivative", lambda x, n: _sinc_derivative(np, x, n),
                         pointwise(lambda dy, _y, x, n: dy * conj(sinc_derivative(x, n=n + 1))),
                         torch=lambda x, n: tensors.number_function(lambda x: _sinc_derivative(torch, x, n))(x),
                         memory=FRESH, spec=types.floating)
deg2rad = elementwise("deg2rad", np.deg2rad, math.pi / 180, means=(np.deg2rad, np.radians), python=math.radians)
rad2deg = elementwise("rad2deg", np.rad2deg, 180 / math.pi, means=(np.rad2deg, np.degrees), python=math.degrees)

# -- sign, rounding and the parts of a number


def _direction(y: Array, x: Array) -> Any:
    """Return x / |x|, and 0 at 0: a quotient for complex x, with which it rotates; a real x has a constant sign."""
    return x / where(equal(y, 0), 1, y) if is_complex(x) else sign(x)


def _turned(dy: Cotangent, y: Array, x: Array) -> Any:
    """Return the part of `dy` across the direction of x, over |x|: x / |x| rotates with complex x, and never grows."""
    if not is_complex(x):
        return ZERO
    return where(equal(y, 0), 0.0, (dy - y * real(conj(y) * dy)) / where(equal(y, 0), 1, abs(x)))


def _sign(x: Array) -> Any:
    return torch.where(torch.isnan(x), x, torch.sgn(x))  # torch.sgn(nan) is 0


abs = define("abs", operator.abs, pointwise(lambda dy, y, x: real(dy) * _direction(y, x)),
             means=(np.abs, operator.abs), torch=of_tensors("abs", operator.abs, (np.abs,)))
sign = define("sign", np.sign, (_turned,), means=(np.sign,), torch=of_tensors("sign", np.sign, on_torch=_sign))
signbit = constant("signbit", np.signbit, np.signbit)
copysign = define("copysign", np.copysign,
                  pointwise(lambda dy, _y, a, b: dy * copysign(1.0, a) * copysign(1.0, b), None),
                  means=(np.copysign,), python=math.copysign, torch=of_tensors("copysign", np.copysign))
floor = constant("floor", np.floor, np.floor)
ceil = constant("ceil", np.ceil, np.ceil)
trunc = constant("trunc", np.trunc, np.trunc)


def _rint(x: Any) -> Any:
    return torch.complex(torch.round(x.real), torch.round(x.imag)) if x.is_complex() else torch.round(x)


rint = constant("rint", np.rint, np.rint, on_torch=_rint)


def _round(x: Any, decimals: int = 0) -> Any:
    if not x.is_floating_point() and not x.is_complex():
        return x.clone() if decimals >= 0 else tensors.on_host(np.round)(x, decimals)
    scale = 10.0 ** builtins.abs(decimals)  # NumPy's way, so that the same numbers are ties
    return _rint(x * scale) / scale if decimals > 0 else _rint(x / scale) * scale if decimals else _rint(x)


round = constant("round", lambda x, decimals=0: np.round(x, decimals), on_torch=_round, batch=batching.of_first,
                 spec=types.rounded)


def _spacing(x: Any) -> Any:
    away = torch.copysign(torch.full((), math.inf, dtype=x.dtype, device=x.device), x)
    return torch.nextafter(x, away) - x


spacing = constant("spacing", np.spacing, np.spacing, on_torch=_spacing)
ldexp = define("ldexp", np.ldexp, pointwise(lambda dy, _y, _x, n: ldexp(dy, n), None), means=(np.ldexp,),
               python=math.ldexp,
               torch=of_tensors("ldexp", np.ldexp, on_torch=lambda x, n: (x.double() * 2.0 ** n.double()).to(x.dtype)))
frexp = define("frexp", np.frexp, (lambda dy, y, _x: ZERO if type(dy[0]) is ZeroTangent else ldexp(dy[0], -y[1]),),
               means=(np.frexp,), python=math.frexp,
               torch=of_tensors("frexp", np.frexp, on_torch=lambda x: tuple(torch.frexp(x))))


def _modf(x: Array) -> Any:
    whole = torch.trunc(x)
    return torch.copysign(torch.where(torch.isinf(x), 0.0, x - whole), x), whole


modf = define("modf", np.modf, (lambda dy, _y, _x: dy[0],), means=(np.modf,), python=math.modf,
              torch=of_tensors("modf", np.modf, on_torch=_modf))
nextafter = define("nextafter", np.nextafter, pointwise(lambda dy, _y, _a, _b: dy, None), means=(np.nextafter,),
                   torch=of_tensors("nextafter", np.nextafter))
heaviside = define("heaviside", np.heaviside, pointwise(None, lambda dy, _y, x, _h: where(equal(x, 0), dy, 0.0)),
                   means=(np.heaviside,), torch=of_tensors("heaviside", np.heaviside,
                                    on_torch=lambda x, h: torch.where(torch.isnan(x), x, torch.heaviside(x, h))))


def _of_numbers(dy: Cotangent, _y: Array, x: Array, **_: Any) -> Any:
    if not is_complex(x):
        return where(isfinite(x), dy, 0.0)
    # each part is replaced by itself
    return where(isfinite(real(x)), real(dy), 0.0) + 1j * where(isfinite(imag(x)), imag(dy), 0.0)


def _nan_to_num(x: Any, **to: Any) -> Any:
    return torch.complex(_nan_to_num(x.real, **to),
                         _nan_to_num(x.imag, **to)) if x.is_complex() else torch.nan_to_num(x, **to)


nan_to_num = define("nan_to_num", np.nan_to_num, (_of_numbers,), torch=_nan_to_num, batch=batching.of_first,
                    memory=FRESH, spec=types.copy)

real = define("real", np.real, (lambda dy, _y, _x: dy,), memory=VIEW, tangent=linear_in(0), torch=lambda x: x.real,
              batch=batching.elementwise, spec=types.part)
imag = define("imag", np.imag, (lambda dy, _y, _x: 1j * dy,), memory=VIEW, tangent=linear_in(0),
              torch=lambda x: x.imag if x.is_complex() else torch.zeros_like(x), batch=batching.elementwise,
              spec=types.imaginary)
conjugate = define("conjugate", lambda x: x.conjugate() if type(x) is complex else np.conjugate(x),
                   (lambda dy, _y, _x: conj(dy),),
                   # a Python number stays one
                   means=(np.conjugate,), tangent=linear_in(0), torch="conj_physical", batch=batching.elementwise,
                   spec=types.conjugated)

# -- comparison, logic and bits

equal = _equality("equal", operator.eq, np.equal)
not_equal = _equality("not_equal", operator.ne, np.not_equal)
less = _ordered("less", operator.lt, np.less)
less_equal = _ordered("less_equal", operator.le, np.less_equal)
greater = _ordered("greater", operator.gt, np.greater)
greater_equal = _ordered("greater_equal", operator.ge, np.greater_equal)
logical_and = constant("logical_and", np.logical_and, np.logical_and)
logical_or = constant("logical_or", np.logical_or, np.logical_or)
logical_xor = constant("logical_xor", np.logical_xor, np.logical_xor)
logical_not = constant("logical_not", np.logical_not, np.logical_not)
isfinite = define("isfinite", np.isfinite, means=(np.isfinite,), python=math.isfinite, rule=CONSTANT,
                  torch="isfinite")
isinf = define("isinf", np.isinf, means=(np.isinf,), python=math.isinf, rule=CONSTANT, torch="isinf")
isnan = define("isnan", np.isnan, means=(np.isnan,), python=math.isnan, rule=CONSTANT, torch="isnan")
bitwise_and = constant("bitwise_and", operator.and_, np.bitwise_and, operator.and_, batch=batching.elementwise)
bitwise_or = constant("bitwise_or", operator.or_, np.bitwise_or, operator.or_, batch=batching.elementwise)
bitwise_xor = constant("bitwise_xor", operator.xor, np.bitwise_xor, operator.xor, batch=batching.elementwise)
bitwise_invert = constant("bitwise_invert", operator.invert, np.bitwise_invert, operator.invert,
                          batch=batching.elementwise)
bitwise_left_shift = constant("bitwise_left_shift", operator.lshift, np.bitwise_left_shift, operator.lshift,
                              batch=batching.elementwise)
bitwise_right_shift = constant("bitwise_right_shift", operator.rshift, np.bitwise_right_shift, operator.rshift,
                               batch=batching.elementwise)
bitwise_count = constant("bitwise_count", np.bitwise_count, np.bitwise_count,
                         on_torch=tensors.on_host(np.bitwise_count))
gcd = constant("gcd", np.gcd, np.gcd)
lcm = constant("lcm", np.lcm, np.lcm)

# -- selection. `where` and not a product with 0 or 1: an infinite cotangent must not become nan.


def _where(c: Array, a: Array, b: Array) -> Any:
    device = tensors.device_of((c, a, b))
    a, b = (tensors.to_tensor(x, device, tensor_dtypes.result_type(a, b)) for x in (a, b))
    return torch.where(tensors.to_tensor(c, device, torch.bool), a, b)


where = define("where", np.where,
               (None, lambda dy, _y, c, _a, _b: where(c, dy, exactly(0.0, dy)),
                lambda dy, _y, c, _a, _b: where(c, exactly(0.0, dy), dy)),
               tangent=linear_in(1, 2), torch=_where, batch=batching.elementwise, memory=MOVED, spec=types.chosen)


def _share(dy: Cotangent, y: Array, mine: Any, other: Array) -> Any:
    # the operand that equals the output wins. Ties are sought among the operands, where they are rare: cheap to mask
    return where(equal(mine, y), where(equal(mine, other), exactly(0.5, dy) * dy, dy), exactly(0.0, dy))


def _share_nan(dy: Cotangent, y: Array, mine: Any, other: Array) -> Any:
    return where(isnan(other), dy, _share(dy, y, mine, other))


def _extremum(name: str, ufunc: np.ufunc, share: Callable[..., Any]) -> Op:
    return define(name, ufunc, pointwise(lambda dy, y, a, b: share(dy, y, a, b),
                  lambda dy, y, a, b: share(dy, y, b, a)),
                  means=(ufunc,), torch=tensors.of_reals(of_tensors(name, ufunc), ufunc))


maximum, minimum = _extremum("maximum", np.maximum, _share), _extremum("minimum", np.minimum, _share)
fmax, fmin = _extremum("fmax", np.fmax, _share_nan), _extremum("fmin", np.fmin, _share_nan)


# torch's, between plain numbers, low <= high: at a bound the whole cotangent passes, where maximum and minimum share it
clamp = define("clamp", lambda x, low=None, high=None: np.clip(x, low, high),
               pointwise(lambda dy, y, x, **_: where(equal(x, y), dy, exactly(0.0, dy))),
               torch=tensors.of_reals(lambda x, low=None, high=None: torch.clamp(x, low, high),
                                      lambda x, low=None, high=None: np.clip(x, low, high)),
               memory=FRESH, spec=types.clipped)

# -- copies and conversions of a value, and its gradient stopped

stop_gradient = define("stop_gradient", lambda x: x, rule=CONSTANT, memory=VIEW, torch=lambda x: x,
                       batch=batching.elementwise, spec=types.itself)
array = define("array", lambda x: np.array(x), (lambda dy, _y, _x: dy,), torch="clone", tangent=linear_in(0),
               batch=batching.elementwise, memory=FRESH, spec=types.new_array)
# a Python number as NumPy's, with NumPy's arithmetic
scalar = define("scalar", lambda x: np.asarray(x)[()], (lambda dy, _y, _x: dy,), tangent=linear_in(0),
                torch=lambda x: x, batch=batching.elementwise, memory=VIEW, spec=types.as_number)
copy = define("copy", np.copy, (lambda dy, _y, _x, order="K": dy,), tangent=linear_in(0), batch=batching.of_first,
              torch=lambda x, order="K": x.clone(memory_format=torch.contiguous_format if order == "C"
                                                 else torch.preserve_format), memory=FRESH, spec=types.copy)
astype = define("astype", lambda x, dtype: np.asarray(x).astype(dtype)[()],
                (lambda dy, _y, _x, dtype: dy if is_inexact(dtype) else ZERO,), tangent=linear_in(0),
                batch=batching.of_first, memory=FRESH, spec=types.cast,
                torch=lambda x, dtype: tensors.convert(x, dtype))
# numbers as elements of an integer array: NumPy checks the range of lists and Python numbers; `astype` wraps them
elements = constant("elements", lambda *xs, dtype: np.array(xs, dtype), effects=RAISES, batch=False,
                    on_torch=tensors.on_host(lambda *xs, dtype: np.array(xs, dtype)), spec=types.listed)
element = constant("element", lambda x, dtype: np.array(x, dtype)[()], effects=RAISES, batch=False,
                   on_torch=tensors.on_host(lambda x, dtype: np.array(x, dtype)), spec=types.element)
