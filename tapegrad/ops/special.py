"""Special functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.elementwise import elementwise, exp


def _by_element(fn: Callable[[float], float]) -> Callable[[Any], Any]:
    """Apply a function of `math` to each number: NumPy has no erf, and SciPy is not required."""
    return lambda x: fn(x) if isinstance(x, (float, int)) else np.vectorize(fn, otypes=[float])(x)[()]


erf = elementwise("erf", _by_element(math.erf), lambda y, x: 2 / math.sqrt(math.pi) * exp(-x * x), scalar=math.erf)
erfc = elementwise("erfc", _by_element(math.erfc), lambda y, x: -2 / math.sqrt(math.pi) * exp(-x * x), scalar=math.erfc)
