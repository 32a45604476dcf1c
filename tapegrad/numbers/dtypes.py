"""dtypes: the kind of numbers of a dtype, including dtypes for which NumPy has no letter."""

from __future__ import annotations

import functools
from typing import Any

NUMERIC = "biufc"
"""NumPy's letters of numeric dtypes."""
INEXACT = "fcO"
"""The letters of dtypes with gradients: real, complex, and objects (numbers of a number system)."""


def letter(dtype: Any) -> str:
    """Return NumPy's letter for the kind of a dtype's numbers; the dtypes of ml_dtypes, whose letter in NumPy is "V",
    get the letters of their counterparts.

    >>> import numpy as np, ml_dtypes
    >>> letter(np.dtype(float)), letter(np.dtype(ml_dtypes.bfloat16)), letter(np.dtype(ml_dtypes.int4))
    ('f', 'f', 'i')
    """
    kind: str = dtype.kind
    return kind if kind != "V" else _letter(dtype.type)


def is_extension(dtype: Any) -> bool:
    """True for a dtype that another package registered with NumPy; some of these have kind "f"."""
    return getattr(dtype, "isbuiltin", 1) == 2


@functools.cache
def _letter(kind: type) -> str:
    if kind.__module__.partition(".")[0] != "ml_dtypes":
        return "V"
    return "f" if "float" in kind.__name__ else "u" if kind.__name__.startswith("uint") else "i"
