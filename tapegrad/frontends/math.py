"""How `math` spells the ops."""

from __future__ import annotations

import math

from tapegrad import ops
from tapegrad.rules import register

for _fn, _op in [
    (math.acos, ops.acos), (math.acosh, ops.acosh), (math.asin, ops.asin), (math.asinh, ops.asinh), (math.atan, ops.atan),
    (math.atan2, ops.atan2), (math.atanh, ops.atanh), (math.cos, ops.cos), (math.cosh, ops.cosh), (math.exp, ops.exp),
    (math.expm1, ops.expm1), (math.fabs, ops.abs), (math.fmod, ops.fmod), (math.log10, ops.log10), (math.log1p, ops.log1p),
    (math.log2, ops.log2), (math.sin, ops.sin), (math.sinh, ops.sinh), (math.sqrt, ops.sqrt), (math.tan, ops.tan), (math.tanh, ops.tanh),
    (math.copysign, ops.copysign), (math.radians, ops.deg2rad), (math.degrees, ops.rad2deg), (math.ldexp, ops.ldexp),
]:
    register(_fn, _op)
