"""How far two gradients lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def norm(parts: Sequence[Any]) -> float:
    """Return the Euclidean norm of a gradient of several parts."""
    return math.hypot(*[float(np.linalg.norm(part)) for part in parts])


def difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the relative difference of two gradients, in the norm, of the part where it is
    largest; nan counts as infinite.
    """
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return math.inf
        off, scale = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
        worst = max(worst, math.inf if math.isnan(off) else off / scale if scale else math.inf if off else 0.0)
    return worst
