"""Reductions: sum, mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.shape import broadcast_to, reshape
from tapegrad.rules import define
from tapegrad.tangent import shape_of


def restore(dy: Any, x: Any, axis: Any = None) -> Any:
    """Give a reduction's cotangent back the axes that were reduced, of length 1, so that it broadcasts against `x`."""
    shape = shape_of(x)
    axes = range(len(shape)) if axis is None else {a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))}
    return reshape(dy, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def _sum_cotangent(dy: Any, y: Any, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return broadcast_to(restore(dy, x, axis), shape_of(x))


sum = define("sum", np.sum, (_sum_cotangent,))
