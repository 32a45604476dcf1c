"""SciPy's own Python code, run on traced values with some of its global names replaced: compiled kernels, and
conversions to plain numbers.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import register
from tapegrad.trace.interposition import as_python, with_names


def run_with(*functions: Any, **names: Any) -> None:
    """Register SciPy functions that run as they are on traced values, with the given global names replaced."""
    for fn in map(unwrap, functions):
        register(fn, with_names(fn, names))


def number(x: Any = 0.0) -> Any:
    """Return a traced number, or the element of a traced array of one, as a Python float; else as `float` does."""
    if not isinstance(x, Traced) or np.prod(shape_of(x)) != 1:
        return float(x)  # TypeError, in NumPy's words, for several numbers
    x = as_python(ops.reshape(x, ()) if shape_of(x) else x)
    return x if isinstance(plain(x), float) else x * 1.0
