"""SciPy's own Python code, run on traced values with something else by some of its global names: a kernel that is
compiled, or what would make a plain number.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import numpy as np

from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import register
from tapegrad.trace.interposition import with_names


def run_with(*functions: Any, **names: Any) -> None:
    """Let functions of SciPy's that are called with traced values find something else by some of their names."""
    for fn in map(unwrap, functions):
        register(fn, with_names(fn, names))


def number(x: Any = 0.0) -> Any:
    """Return what `float` is of a traced value, which goes on: the number, or that of an array of one."""
    if not isinstance(x, Traced) or np.prod(shape_of(x)) != 1:
        return float(x)  # of several, TypeError in NumPy's words
    return np.reshape(as_array(x), ())[()] if shape_of(x) else x
