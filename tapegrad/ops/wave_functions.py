"""Functions by the equation of second order that they solve: Mathieu's, parabolic cylinder and spheroidal functions.

SciPy returns a function and its derivative by x, and the equation gives the second: DLMF 12.2, 12.14, 28.2, 28.20, 30.2
and 30.14. By orders and parameters, derivatives are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.ops.elementwise import cos, cosh
from tapegrad.ops.special import DEGREE, by_part, special
from tapegrad.rules.op import Op


def _of_order_two(name: str, parameters: str, curvature: Callable[..., Any], unit: float = 1.0) -> Op:
    """Define an op by y'' = curvature(y, y', *parameters, x), `unit` being what x is counted in."""
    def slope(part: int, *x: Any) -> Any:
        second = op(*x, part=1)
        return unit * (curvature(op(*x, part=0), second, *x) if part else second)
    op = by_part(name, *parameters.split(), slope)
    return op


mathieu_a = special("mathieu_a", "m", "q")
mathieu_b = special("mathieu_b", "m", "q")
mathieu_cem = _of_order_two("mathieu_cem", "m q", lambda y, _p, m, q, x: (2 * q * cos(2 * DEGREE * x) - mathieu_a(m, q)) * y, DEGREE)
mathieu_sem = _of_order_two("mathieu_sem", "m q", lambda y, _p, m, q, x: (2 * q * cos(2 * DEGREE * x) - mathieu_b(m, q)) * y, DEGREE)
for _name, _value in (("mathieu_modcem1", mathieu_a), ("mathieu_modcem2", mathieu_a), ("mathieu_modsem1", mathieu_b), ("mathieu_modsem2", mathieu_b)):
    globals()[_name] = _of_order_two(_name, "m q", lambda y, _p, m, q, x, value=_value: (value(m, q) - 2 * q * cosh(2 * x)) * y)

pbdv = _of_order_two("pbdv", "v", lambda y, _p, v, x: (x * x / 4 - v - 0.5) * y)
pbvv = _of_order_two("pbvv", "v", lambda y, _p, v, x: (x * x / 4 - v - 0.5) * y)
pbwa = _of_order_two("pbwa", "a", lambda y, _p, a, x: (a - x * x / 4) * y)


def _prolate(y: Any, p: Any, m: Any, c: Any, value: Any, x: Any) -> Any:
    return (2 * x * p - (value - (c * x) ** 2 - m * m / (1 - x * x)) * y) / (1 - x * x)


def _oblate_angular(y: Any, p: Any, m: Any, c: Any, value: Any, x: Any) -> Any:
    return (2 * x * p - (value + (c * x) ** 2 - m * m / (1 - x * x)) * y) / (1 - x * x)


def _oblate_radial(y: Any, p: Any, m: Any, c: Any, value: Any, x: Any) -> Any:
    return (-2 * x * p + (value - (c * x) ** 2 - m * m / (1 + x * x)) * y) / (1 + x * x)


pro_cv = special("pro_cv", "m", "n", "c")
obl_cv = special("obl_cv", "m", "n", "c")
for _name, _value, _curvature in (
        ("pro_ang1", pro_cv, _prolate), ("pro_rad1", pro_cv, _prolate), ("pro_rad2", pro_cv, _prolate),
        ("obl_ang1", obl_cv, _oblate_angular), ("obl_rad1", obl_cv, _oblate_radial), ("obl_rad2", obl_cv, _oblate_radial)):
    globals()[_name] = _of_order_two(_name, "m n c", lambda y, p, m, n, c, x, value=_value, curvature=_curvature:
                                     curvature(y, p, m, c, value(m, n, c), x))
    globals()[f"{_name}_cv"] = _of_order_two(f"{_name}_cv", "m n c cv", lambda y, p, m, _n, c, cv, x, curvature=_curvature:
                                             curvature(y, p, m, c, cv, x))
