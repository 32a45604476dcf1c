"""Cases of random draws, from generators that the function seeds itself; tests/trace/test_random.py has the others."""

from __future__ import annotations

import numpy as np

from tests.cases.case import Case, draw

CASES = [
    Case("draw", lambda x: x * np.random.default_rng(1).normal(size=3), [(draw(3),), (draw(2, 3),), (np.zeros((0, 3)),), (1.5,)], ops=("draw", "default_rng")),
    Case("draw:parameters", lambda a, b: np.random.default_rng(1).normal(a, b), [(0.5, 1.5), (draw(3), np.array(2.0)), (draw(2, 1), draw(3, low=1, high=2))],
         ops=("draw",), errors=[((np.ones(2), np.ones(3)), ValueError)]),
]
