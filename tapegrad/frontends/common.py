"""What the frontends share: turning foreign arguments into canonical ones."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tapegrad.brief import plain
from tapegrad.ops import stack
from tapegrad.rules import Traced, holds_traced, means
from tapegrad.tangent import shape_of
from tapegrad.views import peek


@means(np.asarray)
def as_array(x: Any) -> Any:
    """Return an array-like as a value that ops take: a list that holds traced values is stacked."""
    if not isinstance(x, (list, tuple)):
        return x
    if not holds_traced(x):
        return np.asarray(x)
    return stack(*map(as_array, x), axis=0)


def static(x: Any) -> Any:
    """Return a parameter that is no array (an axis, a shape, a count) as plain ints; a traced one is guarded.

    A traced array becomes a plain one: an array of constants as it is, any other number by number.
    """
    if isinstance(x, (list, tuple)):
        return tuple(map(static, x))
    if isinstance(x, Traced) and shape_of(plain(x)):
        return np.array(plain(x)) if x._tracer.independent(peek(x)) else np.array([static(part) for part in x])  # type: ignore[attr-defined]
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    return operator.index(x) if isinstance(x, (Traced, np.integer)) else x  # type: ignore[arg-type]


def keywords(**kwargs: Any) -> dict[str, Any]:
    """Return the keyword arguments that say something, so that a printed call is short: neither None nor False."""
    return {key: static(value) for key, value in kwargs.items() if value is not None and value is not False}
