"""guards: the facts that a guard may state of a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.formatting import plain
from tapegrad.trace.context import number_kind

# A replay may compute with Python's numbers where the program had NumPy's.
KINDS: dict[type, type] = {np.float64: float, np.complex128: complex, np.bool_: bool, np.int64: int}

FIXED: dict[str, Callable[[Any], Any]] = {
    "type": lambda x: type(plain(x)), "class": lambda x: KINDS.get(type(x), type(x)), "kind": number_kind,
    "shape": lambda x: tuple(getattr(x, "shape", ())), "ndim": lambda x: len(getattr(x, "shape", ())),
    "dtype": lambda x: x.dtype if hasattr(x, "dtype") else np.dtype(type(x)),
}
"""The facts that follow from a value's exact type, shape and dtype."""
