"""NumPy's set functions. Distinct values are read from the array at their first positions, so gradients flow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.numpy.shape import ravel
from tapegrad.numbers.kinds import Array
from tapegrad.rules.registry import means, refused


@means(np.unique)
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: Any = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:
    if not sorted:
        raise refused("np.unique(x, sorted=False)", "the values are then in hash table order",
                      "np.unique(x), in ascending order")
    x, axis = as_array(ar), static(axis)
    places, inverse, counts = ops.unique(x, **({} if axis is None else {"axis": axis}),
                                         **({} if equal_nan else {"equal_nan": False}))
    y = ops.take(ravel(x), places) if axis is None else ops.take(x, places, axis=axis)
    wanted = [part for part, asked in ((places, return_index), (inverse, return_inverse), (counts, return_counts))
              if asked]
    return (y, *wanted) if wanted else y


def _standard(fn: Callable[..., Any], **asked: bool) -> None:
    """Register a function of the array API standard, which returns a named tuple."""
    @functools.cache
    def kind() -> Any:  # cached: calling NumPy's function imports numpy.ma
        return type(fn(np.zeros(1)))

    @means(fn)
    def found(x: Array) -> Any:
        y = unique(x, **asked, equal_nan=False)
        return y if kind() is np.ndarray else kind()(*y)


_standard(np.unique_all, return_index=True, return_inverse=True, return_counts=True)
_standard(np.unique_counts, return_counts=True)
_standard(np.unique_inverse, return_inverse=True)
# since NumPy 2.3 they are unordered
_standard(np.unique_values, sorted="sorted" not in inspect.signature(np.unique).parameters)


@means(np.isin, constant=True)
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         kind: Any = None) -> Any:
    return ops.isin(as_array(element), as_array(test_elements), **({"invert": True} if invert else {}))


if hasattr(np, "in1d"):  # before NumPy 2.4
    @means(np.in1d, constant=True)
    def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
        return isin(ops.reshape(as_array(ar1), (-1,)), ar2, invert=invert)


@means(np.lexsort, constant=True)
def lexsort(keys: Any, axis: int = -1) -> Any:
    parts = map(as_array, keys) if isinstance(keys, (list, tuple)) else keys
    return ops.lexsort(*parts, **({} if axis == -1 else {"axis": static(axis)}))


@means(np.ravel_multi_index, constant=True)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    parts = map(as_array, multi_index) if isinstance(multi_index, (list, tuple)) else multi_index
    return ops.ravel_multi_index(*parts, shape=tuple(map(int, np.atleast_1d(static(dims)))),
                                 **({} if mode == "raise" else {"mode": mode}),
                                 **({} if order == "C" else {"order": order}))


@means(np.unravel_index, constant=True)
def unravel_index(indices: Array, shape: Any, order: str = "C") -> Any:
    sizes = tuple(map(int, np.atleast_1d(static(shape))))
    found = ops.unravel_index(as_array(indices), shape=sizes, **({} if order == "C" else {"order": order}))
    return tuple(found)
