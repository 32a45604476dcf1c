"""Functions that solve an equation of second order: Mathieu's, parabolic cylinder and spheroidal functions.

SciPy returns a function and its derivative by x, and the equation gives the second: DLMF 12.2, 12.14, 28.2, 28.20, 30.2
and 30.14. Derivatives by orders and parameters are refused.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.lazy import needed
from tapegrad.ops.elementwise import cos, cosh, elementwise
from tapegrad.ops.special import DEGREE, _refused, by_part, in_double, special
from tapegrad.rules import types
from tapegrad.rules.op import Op


def _of_order_two(name: str, parameters: str, curvature: Callable[..., Any], unit: float = 1.0) -> Op:
    """Define an op by y'' = curvature(y, y', *parameters, x); `unit` is the unit of x."""
    def slope(part: int, *x: Any) -> Any:
        second = op(*x, part=1)
        return unit * (curvature(op(*x, part=0), second, *x) if part else second)
    op = by_part(name, *parameters.split(), slope, double=True)
    return op


def _value(name: str, function: str) -> Op:
    """Define an op of characteristic values: by q, the mean of 2 cos 2x weighted by the square of its function."""
    def impl(m: Array, q: Array) -> Any:
        found = getattr(needed("scipy.special"), function)
        degrees = np.arange(0.0, 180.0, 180 / 256)  # the integrand is periodic, so the sum converges exponentially
        return builtins.sum(found(m, q, x)[0] ** 2 * math.cos(2 * DEGREE * x) for x in degrees) * (4 / len(degrees))
    slope = elementwise(f"{name}_slope", impl, _refused(f"{name}_slope", "m"), _refused(f"{name}_slope", "q"),
                        on_torch=tensors.on_host(impl), spec=types.in_double)
    return special(name, "m", lambda _y, m, q: slope(m, q))


mathieu_a, mathieu_b = _value("mathieu_a", "mathieu_cem"), _value("mathieu_b", "mathieu_sem")
mathieu_cem = _of_order_two("mathieu_cem", "m q",
                            lambda y, _p, m, q, x: (2 * q * cos(2 * DEGREE * x) - mathieu_a(m, q)) * y, DEGREE)
mathieu_sem = _of_order_two("mathieu_sem", "m q",
                            lambda y, _p, m, q, x: (2 * q * cos(2 * DEGREE * x) - mathieu_b(m, q)) * y, DEGREE)


def _modified(name: str, value: Callable[..., Any]) -> Op:
    return _of_order_two(name, "m q", lambda y, _p, m, q, x: (value(m, q) - 2 * q * cosh(2 * x)) * y)


mathieu_modcem1, mathieu_modcem2 = _modified("mathieu_modcem1", mathieu_a), _modified("mathieu_modcem2", mathieu_a)
mathieu_modsem1, mathieu_modsem2 = _modified("mathieu_modsem1", mathieu_b), _modified("mathieu_modsem2", mathieu_b)
pbdv = _of_order_two("pbdv", "v", lambda y, _p, v, x: (x * x / 4 - v - 0.5) * y)
pbvv = _of_order_two("pbvv", "v", lambda y, _p, v, x: (x * x / 4 - v - 0.5) * y)
pbwa = _of_order_two("pbwa", "a", lambda y, _p, a, x: (a - x * x / 4) * y)


def _prolate(y: Array, p: Array, m: Array, c: Array, value: Array, x: Array) -> Any:
    return (2 * x * p - (value - (c * x) ** 2 - m * m / (1 - x * x)) * y) / (1 - x * x)


def _oblate_angular(y: Array, p: Array, m: Array, c: Array, value: Array, x: Array) -> Any:
    return (2 * x * p - (value + (c * x) ** 2 - m * m / (1 - x * x)) * y) / (1 - x * x)


def _oblate_radial(y: Array, p: Array, m: Array, c: Array, value: Array, x: Array) -> Any:
    return (-2 * x * p + (value - (c * x) ** 2 - m * m / (1 + x * x)) * y) / (1 + x * x)


def _constant(name: str) -> Op:
    """Define an op of characteristic values, in double precision: SciPy's single-precision loops may not end."""
    whole = in_double(lambda *x: (getattr(needed("scipy.special"), name)(*x),))

    def impl(*x: Any) -> Any:
        return whole(*x)[0]
    return elementwise(name, impl, *(_refused(name, argument) for argument in "mnc"), on_torch=tensors.on_host(impl),
                       spec=types.floating)


pro_cv, obl_cv = _constant("pro_cv"), _constant("obl_cv")
pro_ang1 = _of_order_two("pro_ang1", "m n c", lambda y, p, m, n, c, x: _prolate(y, p, m, c, pro_cv(m, n, c), x))
pro_rad1 = _of_order_two("pro_rad1", "m n c", lambda y, p, m, n, c, x: _prolate(y, p, m, c, pro_cv(m, n, c), x))
obl_ang1 = _of_order_two("obl_ang1", "m n c", lambda y, p, m, n, c, x: _oblate_angular(y, p, m, c, obl_cv(m, n, c), x))
obl_rad1 = _of_order_two("obl_rad1", "m n c", lambda y, p, m, n, c, x: _oblate_radial(y, p, m, c, obl_cv(m, n, c), x))
