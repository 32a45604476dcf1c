"""poles: derivatives that are infinite at a point, where a zero cotangent stops.

So a pole is harmless in what nobody asks: `np.where(x > 0, np.sqrt(x), 0.0)` has the derivative 0 at 0, and not nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from tapegrad.numbers.kinds import Cotangent
from tapegrad.rules.op import OPS, Partial


def stopped(derivative: Any, dy: Cotangent) -> Any:
    """Return a derivative, and 0 where it is infinite or nan and the cotangent is 0.

    It depends on the cotangent only there, so that derivatives of higher order are those of the product.
    """
    kind = type(derivative)
    if kind is float or kind is np.float64:
        if math.isfinite(derivative):
            return derivative
    # faster than to look at each
    elif (kind is np.ndarray and derivative.dtype in (np.float64, np.float32)
          and math.isfinite(np.vdot(derivative, derivative))):
        return derivative
    known = OPS["logical_or"](OPS["not_equal"](dy, 0), OPS["isfinite"](derivative))
    return OPS["where"](known, derivative, 0.0)


def with_poles(derivative: Callable[..., Any], poles: Callable[..., bool] | bool,
               conj: Callable[[Any], Any]) -> Partial:
    """Return the partial that multiplies by a derivative which has poles, or may have with these arguments."""
    def partial(dy: Cotangent, y: Any, *x: Any) -> Any:
        found = conj(derivative(y, *x))
        return dy * (stopped(found, dy) if poles is True or poles(*x) else found)  # type: ignore[operator]
    return update_wrapper(partial, derivative, (), ())
