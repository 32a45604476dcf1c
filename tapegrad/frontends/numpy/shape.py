"""NumPy's functions that rearrange."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, static
from tapegrad.rules import means


def in_order(order: str | None) -> None:
    """Refuse any order but C: a traced array has no memory layout."""
    if order not in ("C", None, "K", "A"):
        raise UnknownFunction(f"order={order!r} is not known for traced arrays", user_location(), "transpose first: x.T.reshape(...)")


@means(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: Any = None) -> Any:
    in_order(order)
    return ops.reshape(as_array(a), static(shape))


@means(np.ndarray.reshape)
def reshape_method(a: Any, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    return reshape(a, shape[0] if len(shape) == 1 else shape, order)


@means(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return ops.broadcast_to(as_array(array), static(shape))


@means(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    y = ops.stack(*map(as_array, arrays), axis=static(axis))
    return y if dtype is None else ops.astype(y, dtype=np.dtype(dtype))
