"""What a call makes of plain values: where its `out=` stands, constants that are frozen, and the refusal where a gradient would be lost."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import ConcretizationError, user_location
from tapegrad.numbers.formatting import plain as behind


@functools.cache
def place_of_out(meaning: Callable[..., Any]) -> int:
    """Return which of a meaning's arguments, which are those of the function it stands for, is `out`; 0 where none is."""
    code = getattr(inspect.unwrap(meaning), "__code__", None)
    names = () if code is None else code.co_varnames[:code.co_argcount]
    return names.index("out") if "out" in names else 0


def frozen(x: Any) -> Any:
    """Return the plain value of a constant; an array cannot be written to, since the write would not be seen."""
    value = behind(x)
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    return value


def lost(proxy: Any, what: str, try_: str) -> ConcretizationError:
    err = ConcretizationError(f"{what}, and the gradient through {proxy._op.name} would be lost", user_location(), try_)
    proxy._tracer.refuse(err)
    return err
