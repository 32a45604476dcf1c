"""opaque: non-leaves that may hold numbers: object, record and sparse arrays, sets, arrays of other libraries."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from tapegrad.numbers.cotangents import kind_of
from tapegrad.numbers.dtypes import letter
from tapegrad.tree.sparse import is_sparse


def is_foreign_array(x: Any) -> bool:
    """True for an array of a library that is no number system, such as JAX; NumPy converts it to its own."""
    return hasattr(type(x), "__array__") and hasattr(x, "dtype")


def holds_numbers(x: Any, is_leaf: Callable[[Any], bool]) -> bool:
    """True for such a value that holds numbers which have a gradient elsewhere."""
    if isinstance(x, (set, frozenset)):
        return any(isinstance(part, (float, complex)) or kind_of(part) in ("f", "c") for part in x)
    if isinstance(x, array):
        return x.typecode in "fd"
    if is_sparse(x):
        return bool(x.dtype.kind in "iufc")
    if not isinstance(x, ndarray):
        return "float" in str(x.dtype) or "complex" in str(x.dtype)
    if x.dtype == object:
        return any(map(is_leaf, x.flat))
    kinds = [x.dtype.base]
    for kind in kinds:
        kinds += [kind[name].base for name in kind.names or ()]
    return any(letter(kind) in "fc" for kind in kinds)
