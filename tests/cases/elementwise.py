"""Cases of the elementwise ops."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tests.cases.case import Case, draw

ANY, POSITIVE, UNIT, ABOVE_ONE = (-2.0, 2.0), (0.3, 3.0), (-0.9, 0.9), (1.2, 3.0)


def unary(name: str, fn: Callable[..., Any], domain: tuple[float, float] = ANY, torch: Any = None, **kwargs: Any) -> Case:
    """One array: 2-d, 0-d, a scalar, a float, zero-size, strided."""
    low, high = domain
    samples = [(draw(2, 3, low=low, high=high),), (np.array(draw(low=low, high=high)),), (np.float64(draw(low=low, high=high) * 0.9),),
               (float(draw(low=low, high=high)),), (np.zeros((0, 3)),), (draw(3, 4, low=low, high=high, seed=1).T[::-1, ::2],)]
    return Case(name, fn, samples, torch=torch, errors=[((), TypeError)], **kwargs)


def binary(name: str, fn: Callable[..., Any], first: tuple[float, float] = ANY, second: tuple[float, float] = ANY, torch: Any = None, **kwargs: Any) -> Case:
    """Two arrays: the same shape, broadcast both ways, with scalars, zero-size, strided."""
    def a(*shape: int) -> Any:
        return draw(*shape, low=first[0], high=first[1], seed=1)

    def b(*shape: int) -> Any:
        return draw(*shape, low=second[0], high=second[1], seed=2)
    samples = [(a(2, 3), b(2, 3)), (a(3), b(2, 3)), (a(2, 1), b(3)), (a(2, 3), float(b())), (float(a()), b(3)), (float(a()), float(b())),
               (np.array(a()), b(1, 2)), (a(0, 3), b(3)), (a(2, 4).T[::-1], b(4, 2)[:, ::-1])]
    return Case(name, fn, samples, torch=torch, errors=[((np.ones(3), np.ones(4)), ValueError)], **kwargs)


CASES = [
    binary("add", operator.add, torch=torch.add), binary("add:np", np.add, torch=torch.add),
    binary("subtract", operator.sub, torch=torch.sub), binary("multiply", operator.mul, torch=torch.mul),
    binary("multiply_no_nan", ops.multiply_no_nan), binary("product_no_nan", ops.product_no_nan), binary("divide_no_nan", ops.divide_no_nan),
    binary("divide", operator.truediv, second=POSITIVE, torch=torch.div), binary("divide:np", np.divide, second=POSITIVE),
    unary("negative", operator.neg, torch=torch.neg), unary("positive", operator.pos), unary("reciprocal", np.reciprocal, POSITIVE, torch.reciprocal),
    binary("floor_divide", operator.floordiv, second=POSITIVE, smooth=False),
    binary("remainder", operator.mod, (3.1, 3.4), (1.2, 1.4), torch=torch.remainder), binary("fmod", np.fmod, (3.1, 3.4), (1.2, 1.4), torch=torch.fmod),
    Case("divmod", lambda a, b: np.divmod(a, b), [(draw(3, low=3.1, high=3.4), draw(3, low=1.2, high=1.4))], ops=("floor_divide", "remainder"), smooth=False),
    unary("square", np.square, torch=torch.square),
    Case("convert", lambda x: ops.convert(x, to=float) * x, [(2.5,), (np.float64(1.5),)]),
    Case("number_like", lambda x, y: ops.number_like(x, y) * x, [(2.5, 1.5)]),
    binary("pow", operator.pow, POSITIVE, torch=torch.pow), binary("pow:np", np.power, POSITIVE, torch=torch.pow), binary("float_power", np.float_power, POSITIVE),
    Case("pow:integer", lambda x: x ** 3 + x ** 2 + x ** 1 + x ** 0 + x ** -2, [(draw(4, low=0.5),), (draw(2, 2, low=-2, high=-0.5),)]),
    Case("pow:zero", lambda x, p: x ** 2 + 0.0 * p, [(np.array([0.0, -1.0]), 2.0)], ops=("pow",)),
    unary("sqrt", np.sqrt, POSITIVE, torch.sqrt), unary("cbrt", np.cbrt, POSITIVE),
    unary("exp", np.exp, torch=torch.exp), unary("exp2", np.exp2, torch=torch.exp2), unary("expm1", np.expm1, torch=torch.expm1),
    unary("log", np.log, POSITIVE, torch.log), unary("log2", np.log2, POSITIVE, torch.log2), unary("log10", np.log10, POSITIVE, torch.log10),
    unary("log1p", np.log1p, POSITIVE, torch.log1p), binary("logaddexp", np.logaddexp, torch=torch.logaddexp),
    binary("logaddexp2", np.logaddexp2, torch=torch.logaddexp2),
    unary("sin", np.sin, torch=torch.sin), unary("cos", np.cos, torch=torch.cos), unary("tan", np.tan, (-1.2, 1.2), torch.tan),
    unary("asin", np.asin, UNIT, torch.asin), unary("acos", np.acos, UNIT, torch.acos), unary("atan", np.atan, torch=torch.atan),
    unary("sinh", np.sinh, torch=torch.sinh), unary("cosh", np.cosh, torch=torch.cosh), unary("tanh", np.tanh, torch=torch.tanh),
    unary("asinh", np.asinh, torch=torch.asinh), unary("acosh", np.acosh, ABOVE_ONE, torch.acosh), unary("atanh", np.atanh, UNIT, torch.atanh),
    binary("atan2", np.atan2, torch=torch.atan2), binary("hypot", np.hypot, torch=torch.hypot), unary("sinc", np.sinc, (0.2, 2.3), torch.sinc),
    Case("sinc_derivative", lambda x: ops.sinc_derivative(x, n=2), [(np.array([0.0, 0.4, -3.5]),), (0.0,)]),
    unary("deg2rad", np.deg2rad, torch=torch.deg2rad), unary("rad2deg", np.rad2deg, torch=torch.rad2deg),
    unary("abs", abs, torch=torch.abs), unary("abs:fabs", np.fabs, torch=torch.abs), unary("sign", np.sign, torch=torch.sign), unary("signbit", np.signbit),
    binary("copysign", np.copysign, torch=torch.copysign),
    unary("floor", np.floor, torch=torch.floor), unary("ceil", np.ceil, torch=torch.ceil), unary("trunc", np.trunc, torch=torch.trunc),
    unary("trunc:fix", np.fix), unary("rint", np.rint, torch=torch.round),
    Case("round", lambda x: np.round(x, 1), [(draw(3),), (1.234,)]), Case("round:builtin", lambda x: round(x, 1), [(np.float64(1.2),)]),
    Case("round_number", lambda x: round(x, 1), [(1.234,), (25,)]),
    Case("elements", lambda x: np.array([x, 2], np.int8), [(3.5,), (7,)], errors=[((300,), OverflowError), ((math.nan,), ValueError)]),
    Case("element", lambda x: np.array(x, np.int8), [(3.5,), (7,)], errors=[((300,), OverflowError)]),
    Case("ldexp", lambda x: np.ldexp(x, 3), [(draw(3),)]), Case("frexp", np.frexp, [(draw(3, low=1.1, high=1.9),)], smooth=False),
    Case("modf", np.modf, [(draw(3, low=1.1, high=1.9),)]), Case("nextafter", lambda x: np.nextafter(x, 9.0), [(draw(3),)]),
    unary("spacing", np.spacing), Case("heaviside", lambda h: np.heaviside(np.array([-1.0, 0.0, 1.0]), h), [(0.5,), (draw(3),)], torch=None),
    Case("nan_to_num", np.nan_to_num, [(draw(3),)]),
    unary("real", np.real), unary("imag", np.imag), unary("conjugate", np.conjugate),
    *[binary(name, fn) for name, fn in [
        ("equal", operator.eq), ("not_equal", operator.ne), ("less", operator.lt), ("less_equal", operator.le), ("greater", operator.gt),
        ("greater_equal", operator.ge), ("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)]],
    *[unary(name, fn) for name, fn in [("logical_not", np.logical_not), ("isfinite", np.isfinite), ("isinf", np.isinf), ("isnan", np.isnan)]],
    *[Case(name, fn, [(draw(3, dtype=int, low=0, high=9), draw(3, dtype=int, low=0, high=5, seed=3)), (6, 3)]) for name, fn in [
        ("bitwise_and", operator.and_), ("bitwise_or", operator.or_), ("bitwise_xor", operator.xor), ("bitwise_left_shift", operator.lshift),
        ("bitwise_right_shift", operator.rshift), ("gcd", np.gcd), ("lcm", np.lcm)]],
    Case("bitwise_invert", operator.invert, [(draw(3, dtype=int, low=0, high=9),), (np.array([True, False]),)]),
    Case("bitwise_count", np.bitwise_count, [(draw(3, dtype=int, low=0, high=9),)]),
    # with where=, what is left out is not computed, and does no harm
    Case("divide:where", lambda x, y: np.divide(x, y - 1.5, where=abs(y - 1.5) > 0.1, out=np.zeros_like(x)),
         [(draw(3), np.array([0.3, 1.5, 2.0])), (np.array(0.5), np.array(1.5))], ops=("divide", "setitem"), errors=[((np.ones(3), np.ones(2)), ValueError)]),
    Case("log:where", lambda x: np.log(x, where=[True, False, True], out=x * 2), [(np.array([0.5, -1.0, 2.0]),), (np.array([[1.0, -1.0, 2.0]]),)]),
    Case("divide:where number", lambda x, y: np.divide(x, y, where=y > 0.1, out=np.zeros(3)), [(draw(3), 0.0), (draw(3), 2.0), (1.5, draw(3))], ops=("divide",)),
    Case("add:where cast", lambda x: np.add(x, 1, where=x > 0, out=np.zeros(3, int)), [], errors=[((np.ones(3),), TypeError)]),
    Case("where", lambda x, y: np.where(x > y, x, 2 * y), [(draw(2, 3), draw(3, seed=4)), (1.0, 2.0), (np.zeros((0, 2)), 1.0)],
         ops=("where", "greater"), torch=lambda x, y: torch.where(x > y, x, 2 * y), errors=[((np.ones(3), np.ones(4)), ValueError)]),
    binary("maximum", np.maximum, torch=torch.maximum), binary("minimum", np.minimum, torch=torch.minimum),
    binary("fmax", np.fmax, torch=torch.fmax), binary("fmin", np.fmin, torch=torch.fmin),
    Case("clip", lambda x: np.clip(x, -1.0, 1.0), [(draw(2, 3),), (0.5,)], ops=("maximum", "minimum"), torch=lambda x: torch.clip(x, -1.0, 1.0)),
    Case("clip:bounds", lambda x, low, high: x.clip(low, high), [(draw(4), -0.5, np.full(4, 0.7))], ops=("maximum", "minimum")),
    Case("clamp", lambda x: ops.clamp(x, low=-1.0, high=1.0) + ops.clamp(x, low=0.3) + ops.clamp(x, high=0.5), [(draw(2, 3),), (0.4,)],
         torch=lambda x: x.clamp(-1.0, 1.0) + x.clamp(min=0.3) + x.clamp(max=0.5)),
    Case("astype", lambda x: x.astype(np.float64) * 2, [(draw(3),)]), Case("astype:int", lambda x: x * x.astype(int), [(draw(3),)], ops=("astype",)),
    Case("copy", lambda x: x.copy() * 2, [(draw(3),)]),
    Case("scalar", lambda a, b: np.power(a, b) + np.divide(a, b) - np.add(a, np.negative(b)), [(1.5, 2.5), (2.0, 3)], errors=[(("text", 1.0), TypeError)]),
    Case("stop_gradient", lambda x: x * 2.0, [(1.0,)]),
    # a function of math is caught by its name in the module, so it is looked up at the call
    *[Case(f"{op}:math", lambda x, name=name: getattr(math, name)(x), [(draw(low=low, high=high).item(),)], ops=(op,)) for op, name, (low, high) in [
        ("sin", "sin", ANY), ("exp", "exp", ANY), ("log", "log", POSITIVE), ("sqrt", "sqrt", POSITIVE), ("tanh", "tanh", ANY), ("erf", "erf", ANY),
        ("erfc", "erfc", ANY), ("abs", "fabs", ANY), ("frexp", "frexp", (1.1, 1.9)), ("modf", "modf", (1.1, 1.9)), ("asin", "asin", UNIT), ("deg2rad", "radians", ANY)]],
    *[Case(f"math:{name}", fn, [(1.5, 0.7)], ops=()) for name, fn in [
        ("log", lambda a, b: math.log(a, b)), ("dist", lambda a, b: math.dist((a, b), (0.0, 3.0))),
        ("prod", lambda a, b: math.prod([a, b, a], start=2)), ("pow", lambda a, b: math.pow(a, b)),
        ("isclose", lambda a, b: a * (2.0 if math.isclose(a, b) else 3.0)),
        ("floor", lambda a, b: a * math.floor(a) + b * math.ceil(b) + math.trunc(a))]],
    Case("euclidean_norm", lambda a, b: math.hypot(a, b, 2.0), [(1.5, 0.7)]),
    Case("fsum", lambda a, b: math.fsum([a, b, a]) * math.fsum(x * x for x in (a, b)) * math.fsum({1: a, 2: b}.values()), [(1.5, 0.7)],
         errors=[((float("inf"), -float("inf")), ValueError)]),
    *([Case("fma", lambda a, b: math.fma(a, b, a), [(1.5, 0.7)], errors=[((float("inf"), 0.0), ValueError)])] if hasattr(math, "fma") else []),
    Case("ieee_remainder", lambda a, b: math.remainder(a, b), [(1.5, 0.7), (-7.3, 2.0)], errors=[((1.5, 0.0), ValueError)]),
    # -- np.emath: complex numbers beyond the real domain
    *[Case(f"{op}:emath_{name}", getattr(np.emath, name), [(draw(3, low=0.1, high=0.9),), (draw(2, 3),), (-0.7,), (2.5,)]) for name, op in (
        ("sqrt", "sqrt"), ("log", "log"), ("log2", "log2"), ("log10", "log10"), ("arccos", "acos"), ("arcsin", "asin"), ("arctanh", "atanh"))],
    Case("log:emath_logn", lambda x: np.emath.logn(2.5, x), [(draw(3, low=0.5),), (draw(3),)]),
    Case("pow:emath_power", np.emath.power, [(draw(3, low=0.5), draw(3, seed=1)), (draw(3), draw(3, seed=1)), (-1.5, 2.5)]),
]
