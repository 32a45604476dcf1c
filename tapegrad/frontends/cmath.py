"""How the functions of `cmath` are written in ops: a real argument is converted to complex first."""

from __future__ import annotations

import cmath
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends import math
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.rules.op import Op
from tapegrad.rules.registry import means


def _number(y: Array, x: Array) -> Any:
    """Return a complex result as a Python number. If it is not finite, guard that `x` is not either: cmath raises where
    a finite argument has no finite result.
    """
    y = ops.item(y)
    if not ops.isfinite(y):
        bool(ops.isfinite(x))
    return y


def _complex(x: Array) -> Any:
    return ops.astype(x, dtype=np.dtype(complex))  # keeps the sign of a zero, which x + 0j does not


def _of_complex(fn: Callable[[Any], Any], op: Op) -> Callable[[Any], Any]:
    def meaning(x: Array) -> Any:
        fn(plain(x))  # raises cmath's errors
        return _number(op(_complex(x)), x)
    return meaning


for _fn, _op in [
    (cmath.acos, ops.acos), (cmath.acosh, ops.acosh), (cmath.asin, ops.asin), (cmath.asinh, ops.asinh),
    (cmath.atan, ops.atan),
    (cmath.atanh, ops.atanh), (cmath.cos, ops.cos), (cmath.cosh, ops.cosh), (cmath.exp, ops.exp),
    (cmath.log10, ops.log10), (cmath.sin, ops.sin),
    (cmath.sinh, ops.sinh), (cmath.sqrt, ops.sqrt), (cmath.tan, ops.tan), (cmath.tanh, ops.tanh),
]:
    means(_fn)(_of_complex(_fn, _op))
for _fn, _op in [(cmath.isfinite, ops.isfinite), (cmath.isinf, ops.isinf), (cmath.isnan, ops.isnan)]:
    means(_fn, constant=True)(functools.partial(Op.__call__, _op))


@means(cmath.log)
def log(x: Any, base: Any = None) -> Any:
    cmath.log(plain(x), *[] if base is None else [plain(base)])
    return _number(ops.log(_complex(x)) if base is None else ops.log(_complex(x)) / ops.log(_complex(base)), x)


@means(cmath.phase)
def phase(x: Array) -> Any:
    return ops.item(ops.angle(_complex(x)))


@means(cmath.polar)
def polar(x: Array) -> Any:
    return math.number(ops.abs(_complex(x))), phase(x)


@means(cmath.rect)
def rect(r: Array, phi: Any) -> Any:
    return r * _number(ops.exp(1j * phi), phi)


means(cmath.isclose, constant=True)(math.isclose)
