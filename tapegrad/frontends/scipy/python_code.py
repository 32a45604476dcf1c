"""SciPy's own Python code, run on traced values with something else by some of its global names: a kernel that is
compiled, or what would make a plain number.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import register


class _Names(dict[str, Any]):
    """Global names, and below them those of a module as they are at the time: a trace replaces some."""

    def __init__(self, below: dict[str, Any], names: dict[str, Any]) -> None:
        super().__init__(names, __builtins__=below["__builtins__"], __name__=below["__name__"])
        self.below = below

    def __missing__(self, name: str) -> Any:
        return self.below[name]


def with_names(fn: Callable[..., Any], **names: Any) -> Any:
    """Return a function of SciPy's that finds something else by some of its global names."""
    made = FunctionType(fn.__code__, _Names(fn.__globals__, names), fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def run_with(*functions: Any, **names: Any) -> None:
    """Let functions of SciPy's that are called with traced values find something else by some of their names."""
    for fn in functions:
        register(fn, with_names(fn, **names))


def number(x: Any = 0.0) -> Any:
    """Return what `float` is of a traced value, which goes on: the number, or that of an array of one."""
    if not isinstance(x, Traced) or np.prod(shape_of(x)) != 1:
        return float(x)  # of several, TypeError in NumPy's words
    return np.reshape(as_array(x), ())[()] if shape_of(x) else x
