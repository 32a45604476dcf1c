"""creation: the types of arrays created from a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.rules.types.family import Family, dtype_of, known, knowns, numeric
from tapegrad.rules.types.layout import array, copied
from tapegrad.tape.spec import Spec


def _shape(shape: Any) -> tuple[int, ...]:
    return knowns(shape) if not (isinstance(shape, (tuple, list)) and not shape) else ()


def of_shape(shape: Any, dtype: Any = None, order: Any = "C", **_: Any) -> Spec:
    """Return the type of an array of this shape, float64 by default."""
    found = np.dtype(float if dtype is None else known(dtype))
    return copied(found, array(found, _shape(shape)), order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **_: Any) -> Spec:
    """Return the type of an array filled with one number."""
    found = dtype_of(numeric(fill_value)) if dtype is None else np.dtype(known(dtype))
    return copied(found, array(found, _shape(shape)), order)


def like(fills: int) -> Family:
    """Return the family of new arrays like the first argument, filled with the next `fills` arguments."""
    def family(x: Any, *others: Any, dtype: Any = None, order: Any = "K", shape: Any = None, **_: Any) -> Spec:
        spec, rest = numeric(x), others[fills:]
        dtype = rest[0] if rest else dtype
        found = dtype_of(spec) if dtype is None else np.dtype(known(dtype))
        return copied(found, spec, order, None if shape is None else _shape(shape))
    return family
