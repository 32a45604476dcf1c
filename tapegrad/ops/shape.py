"""Shape ops: the same elements, arranged otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.rules import define
from tapegrad.tangent import shape_of

reshape = define("reshape", np.reshape, (lambda dy, y, x, shape: reshape(dy, shape_of(x)), None))
broadcast_to = define("broadcast_to", np.broadcast_to, (lambda dy, y, x, shape: dy, None))  # the sweep sums what was stretched


def _stack_cotangent(i: int, dy: Any, y: Any, *xs: Any, axis: int = 0) -> Any:
    return dy[(slice(None),) * (axis % len(shape_of(y))) + (i,)]


stack = define("stack", lambda *xs, axis=0: np.stack(xs, axis=axis), _stack_cotangent)
