"""Helpers of the frontends: foreign arguments to canonical ones, and results in the form that NumPy gives them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.matrix import MatrixStandIn
from tapegrad.numbers.cotangents import dtype_of, has_dtype, shape_of
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.kinds import Array, DType
from tapegrad.ops import astype, copy, element, elements, permute_dims, reshape, stack
from tapegrad.rules.op import Traced, holds_traced
from tapegrad.rules.registry import DISPATCH, means
from tapegrad.trace.call_arguments import shown_array
from tapegrad.trace.guards import number_type, option
from tapegrad.trace.interposition import as_named
from tapegrad.trace.operators import is_sequence
from tapegrad.trace.plain_arguments import gives_up
from tapegrad.trace.views import peek


@means(np.asarray)
def as_array(x: Array) -> Any:
    """Return an array-like as a value that ops take; a list that holds traced values is stacked."""
    if isinstance(x, Traced) or not isinstance(x, (list, tuple)):
        if type(x) is MatrixStandIn:
            return x.A
        shown = x if type(x) in _SHOWN else shown_array(x)
        return _listed(x) if shown is x and type(x) not in _SHOWN and is_sequence(x) else shown
    if not holds_traced(x):
        return np.asarray(x)
    viewed = DISPATCH.get("viewed")
    if viewed is not None and (y := viewed(as_array, np.array, (x,), {})) is not NotImplemented:
        return y
    return stack(*map(as_array, x), axis=0)


def _listed(x: Any) -> Any:
    """Return a sequence other than a list or tuple (a range, a deque) as the array that NumPy makes of it."""
    if isinstance(x, (range, memoryview, bytearray)) or not holds_traced(items := list(x)):
        return np.asarray(x)
    return as_array(items)


def as_elements(x: Any, dtype: DType) -> Any:
    """Return an array-like as an array of a dtype, as `np.array(x, dtype)` casts it: an array as `astype` does, the
    numbers of a list one by one. For an integer dtype this raises where a number is no integer or out of bounds.
    """
    if isinstance(x, Traced) or not isinstance(x, (list, tuple)):
        return cast(as_array(x), dtype)
    if not holds_traced(x):
        return np.asarray(x, dtype)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        if all(map(_is_number, x)):
            return elements(*x, dtype=dtype)
        if not any(map(_is_number, x)):
            return stack(*[as_elements(part, dtype) for part in x], axis=0)
    elif dtype.kind == "f":
        _check_real(x)
    y = as_array(x)
    return y if has_dtype(y, dtype) else astype(y, dtype=dtype)


INTEGERS = frozenset([int, bool])
"""The types of Python numbers whose range `np.full` and `np.copyto` check; they cast a float as `astype` does."""


def cast(x: Any, dtype: DType, listed: bool = False, checked: frozenset[type] = PYTHON) -> Any:
    """Return an array or a number in a dtype; itself if it has that dtype already.

    A Python number of a `checked` type raises where it is out of the dtype's bounds, as in NumPy. If `listed` (`x` is
    an element of a list, or is assigned to an index), any number does.
    """
    dtype, val = np.dtype(dtype), plain(x)
    if has_dtype(x, dtype):
        return x
    if dtype.kind in "iu" and listed and _is_number(x):
        return reshape(elements(x, dtype=dtype), ())
    if dtype.kind in "iu" and type(val) in checked:
        return element(x, dtype=dtype)
    if dtype.kind == "f" and (listed or complex in checked):
        _check_real((x,))
    return astype(x, dtype=dtype)


def _is_number(x: Any) -> bool:
    """True for a Python or NumPy number or a 0-dimensional array, traced or not."""
    val = plain(x)
    return type(val) in PYTHON or isinstance(val, np.generic) or (type(val) is np.ndarray and not val.ndim)


def _check_real(numbers: Any) -> None:
    """Raise TypeError if nested lists of numbers contain a Python complex number: NumPy does not cast it to float."""
    for x in numbers:
        if isinstance(x, (list, tuple)) and not isinstance(x, Traced):
            _check_real(x)
        elif type(plain(x)) is complex:
            float(plain(x))


_SHOWN = PYTHON | {np.ndarray, np.float64}


def numpys(y: Array) -> Any:
    """Return a traced Python number as a NumPy scalar, which is what NumPy's functions return for Python numbers."""
    return ops.scalar(y) if isinstance(y, Traced) and type(plain(y)) in PYTHON else y


def static(x: Any) -> Any:
    """Return a parameter that is no array (an axis, a shape, a count) as a plain number; a traced one is guarded.

    A traced array becomes a plain one: an array that depends on no input as it is, any other number by number, guarded.
    """
    if isinstance(x, (list, tuple)):
        return tuple(map(static, x))
    if isinstance(x, Traced) and shape_of(plain(x)):
        known = x._tracer.independent(peek(x))
        return np.array(plain(x)) if known else np.array([static(part) for part in x], dtype_of(x))  # type: ignore[attr-defined]
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    if isinstance(x, Traced) and number_type(x) in ("f", "c") and gives_up(x):
        return option(x)
    return operator.index(x) if isinstance(x, (Traced, np.integer)) else x  # type: ignore[arg-type]


def keywords(**kwargs: Any) -> dict[str, Any]:
    """Return the keyword arguments that are neither None nor False, which keeps a printed call short."""
    return {key: static(value) for key, value in kwargs.items() if value is not None and value is not False}


def value_by(function: str, y: Array, *args: Any, part: int | None = None, **kwargs: Any) -> Any:
    """Return `y`, computed by ops, with the value of the library function of a dotted name, to the last bit."""
    if not isinstance(y, Traced):
        return y
    return ops.value_by(y, *map(as_array, args), function=function, **({} if part is None else {"part": part}),
                        **kwargs)


# -- memory order: a tuple of axes, the slowest first. NumPy decides by it whether `ravel` of a result is a view

Axes = tuple[int, ...]


def rows(x: Array) -> Axes:
    """Return C order, which NumPy's new arrays have."""
    return tuple(range(np.ndim(x)))


def columns(x: Any) -> Axes:
    """Return Fortran order for a Fortran-contiguous array, else C order."""
    return rows(x)[::-1] if x.flags.fnc else rows(x)


def kept(x: Array) -> Axes:
    """Return the memory order of a copy with order="K"."""
    strides = np.empty_like(x).strides
    return tuple(sorted(rows(x), key=lambda axis: -strides[axis]))


def laid(order: Callable[[Any], Axes], by: int = 0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a composite's results the memory order of NumPy's function, which `order` derives from argument `by`."""
    def decorate(composite: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(composite)
        def of(*args: Any, **kwargs: Any) -> Any:
            y = composite(*args, **kwargs)
            x = plain(args[by] if len(args) > by else kwargs.get(composite.__code__.co_varnames[by]))
            axes = order(x) if type(x) is np.ndarray else None
            return tuple(_lay(part, axes) for part in y) if type(y) is tuple else _lay(y, axes)
        return of
    return decorate


def _lay(y: Array, axes: Axes | None) -> Any:
    """Return an array in a memory order; itself if it has that order already."""
    found = plain(y)
    if type(found) is not np.ndarray or found.ndim < 2:
        return y
    axes = axes if axes is not None and len(axes) == found.ndim else rows(found)
    if found.transpose(axes).flags.c_contiguous:
        return y
    if axes == rows(found):
        return copy(y, order="C")
    return permute_dims(copy(permute_dims(y, axes=axes), order="C"), axes=tuple(np.argsort(axes).tolist()))


def written(fn: Any) -> Callable[..., Any]:
    """Return an implementation of a NumPy function that is Python code: that code itself, whose calls are traced."""
    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return as_named(fn._implementation)(*args, **kwargs)
    return run
