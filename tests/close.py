"""Comparing numbers, of which most are the very same."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_close(found: Any, expected: Any, rtol: float, atol: float) -> None:
    """Raise what np.testing.assert_allclose does, which takes twenty times as long to find that arrays are equal."""
    if not np.array_equal(found, expected):
        np.testing.assert_allclose(found, expected, rtol, atol)
