"""How array_api_compat's helpers, which libraries vendor, treat traced arrays: they test an array's class, and a
proxy's is not NumPy's.
"""

from __future__ import annotations

import sys

import numpy as np

from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensors import is_writable
from tapegrad.rules.registry import register


def added(name: str) -> None:
    """Register the functions of a vendored helper module of array_api_compat, which has been imported."""
    helpers = sys.modules[name]
    if hasattr(helpers, "is_writeable_array"):
        register(helpers.is_writeable_array, lambda x: isinstance(plain(x), np.ndarray) and is_writable(plain(x)),
                 constant=True)
    if hasattr(helpers, "array_namespace"):
        register(helpers.array_namespace, lambda *xs, **options: helpers.array_namespace(*map(plain, xs), **options),
                 constant=True)
