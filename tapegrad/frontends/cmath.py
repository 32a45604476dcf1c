"""How `cmath` spells the ops: a real number is taken for a complex one first."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

from tapegrad import ops
from tapegrad.frontends import math
from tapegrad.rules.op import Op
from tapegrad.rules.registry import means


def _of_complex(op: Op) -> Callable[[Any], Any]:
    return lambda x: op(x + 0j)


for _fn, _op in [
    (cmath.acos, ops.acos), (cmath.acosh, ops.acosh), (cmath.asin, ops.asin), (cmath.asinh, ops.asinh), (cmath.atan, ops.atan),
    (cmath.atanh, ops.atanh), (cmath.cos, ops.cos), (cmath.cosh, ops.cosh), (cmath.exp, ops.exp), (cmath.log10, ops.log10), (cmath.sin, ops.sin),
    (cmath.sinh, ops.sinh), (cmath.sqrt, ops.sqrt), (cmath.tan, ops.tan), (cmath.tanh, ops.tanh),
]:
    means(_fn)(_of_complex(_op))
for _fn, _op in [(cmath.isfinite, ops.isfinite), (cmath.isinf, ops.isinf), (cmath.isnan, ops.isnan)]:
    means(_fn, constant=True)(_of_complex(_op))


@means(cmath.log)
def log(x: Any, base: Any = None) -> Any:
    return ops.log(x + 0j) if base is None else ops.log(x + 0j) / ops.log(base + 0j)


@means(cmath.phase)
def phase(x: Any) -> Any:
    return ops.angle(x + 0j)


@means(cmath.polar)
def polar(x: Any) -> Any:
    return ops.abs(x), phase(x)


@means(cmath.rect)
def rect(r: Any, phi: Any) -> Any:
    return r * ops.exp(1j * phi)


means(cmath.isclose, constant=True)(math.isclose)
