"""dtypes: what kind of numbers an array of a dtype holds, where NumPy has no letter for it too."""

from __future__ import annotations

import functools
from typing import Any

NUMERIC = "biufc"
"""The letters of NumPy's numbers."""
INEXACT = "fcO"
"""The letters of numbers that a gradient has: real ones, complex ones, and objects, which are numbers of a system."""


def letter(dtype: Any) -> str:
    """Return NumPy's letter for the kind of numbers of a dtype; those of ml_dtypes, for which NumPy has "V", have the
    letters of their kin.

    >>> import numpy as np, ml_dtypes
    >>> letter(np.dtype(float)), letter(np.dtype(ml_dtypes.bfloat16)), letter(np.dtype(ml_dtypes.int4))
    ('f', 'f', 'i')
    """
    kind: str = dtype.kind
    return kind if kind != "V" else _letter(dtype.type)


def is_extension(dtype: Any) -> bool:
    """True for a dtype that another package has registered with NumPy; some of these call themselves "f"."""
    return getattr(dtype, "isbuiltin", 1) == 2


@functools.cache
def _letter(kind: type) -> str:
    if kind.__module__.partition(".")[0] != "ml_dtypes":
        return "V"
    return "f" if "float" in kind.__name__ else "u" if kind.__name__.startswith("uint") else "i"
