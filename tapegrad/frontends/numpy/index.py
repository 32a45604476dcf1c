"""NumPy's functions that read parts of arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tapegrad import ops
from tapegrad.frontends.common import as_array, laid, rows, static
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.registry import means, refused
from tapegrad.tape.tape import NO_KWARGS
from tapegrad.trace import views
from tapegrad.trace.call_arguments import shown_array
from tapegrad.trace.proxy import recorded


@means(operator.getitem)
def getitem(x: Any, index: Any) -> Any:
    if type(index) is int:  # a fast path for loops over elements
        y, tracer, view = x._val[index], x._tracer, x._view
        if type(y) in _NUMBERS and not tracer.custom and (view is None or not view.storage.owned):
            return recorded(tracer, ops.getitem, (views.peek(x), index), y)
        return tracer.record(ops.getitem, (x, index), NO_KWARGS, y)
    parts = index if type(index) is tuple else (index,)
    if all(map(_is_plain, parts)):
        y = x._val[index]
        view = views.cut(x, ops.getitem, parts, y)
        if view is not None:
            return recorded(x._tracer, ops.getitem, (views.peek(x), *parts), y, NO_KWARGS, view)
        return x._tracer.record(ops.getitem, (x, *parts), NO_KWARGS, y)
    return ops.read(x, index_parts(index))


_NUMBERS = frozenset([np.float64, np.float32, np.int64, np.complex128])
_WHOLE = frozenset([int, type(None)])


def _is_plain(part: Any) -> bool:
    """True for a part of an index that is a plain int, slice, None or Ellipsis."""
    kind = type(part)
    if kind is slice:
        return type(part.start) in _WHOLE and type(part.stop) in _WHOLE and type(part.step) in _WHOLE
    return kind in _WHOLE or part is Ellipsis


def index_parts(index: Any) -> tuple[Any, ...]:
    """Return an index as the arguments of `getitem` and `setitem`."""
    return tuple(map(_part, index if isinstance(index, tuple) else (index,)))


def _part(part: Any) -> Any:
    """Return one part of an index as an argument of `getitem`: a list or an array-like object as an array, a slice with
    plain ints as bounds.
    """
    if isinstance(part, slice):
        return slice(static(part.start), static(part.stop), static(part.step))
    if isinstance(part, (list, tuple, range)):
        return as_array(list(part) if type(part) is range else part) if len(part) else np.empty(0, np.intp)
    return shown_array(part)


# -- along an axis


def _integers(indices: Array, mode: str, length: Callable[[], int]) -> Any:
    """Return indices as `take` needs them: an array of integers, brought into range by `mode`."""
    indices = as_array(indices)
    dtype = dtype_of(indices)
    if isinstance(indices, bool) or getattr(dtype, "kind", "") == "b":
        indices = ops.astype(indices, dtype=np.dtype(np.intp))
    elif getattr(dtype, "kind", "") == "f" and 0 in shape_of(indices):
        indices = np.empty(shape_of(indices), np.intp)  # an empty list becomes an array of floats
    if mode == "wrap":
        return ops.remainder(indices, length())
    return ops.minimum(ops.maximum(indices, 0), length() - 1) if mode == "clip" else indices


@means(np.take, np.ndarray.take)
def take(a: Array, indices: Array, axis: Axis = None, out: Array | None = None, mode: str = "raise") -> Any:
    x, axis = _along(a, axis)
    return ops.take(x, _integers(indices, mode, lambda: shape_of(x)[axis]), axis=axis)


def _along(a: Any, axis: Any) -> tuple[Any, int]:
    """Return an array and an axis of it, the flattened array if `axis` is None; a number gets one axis."""
    x = as_array(a)
    if axis is None or not shape_of(x):
        return ops.reshape(x, (-1,)), 0 if axis is None else normalize_axis_index(static(axis), 1)
    return x, static(axis)


@means(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x = as_array(arr)
    x, axis = (ops.reshape(x, (-1,)), 0) if axis is None else (x, static(axis))
    return ops.take_along_axis(x, as_array(indices), axis=axis)


@means(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Any:
    if writeable:
        raise refused("sliding_window_view with writeable=True",
                      "its windows overlap in memory, and such writes cannot be recorded", "write into x itself")
    base, sizes = as_array(x), static(window_shape)
    y = base
    # ValueError, in NumPy's words
    windows = np.lib.stride_tricks.sliding_window_view(views.laid(y), sizes, static(axis))
    sizes = np.atleast_1d(sizes).tolist()
    axes = range(len(sizes)) if axis is None else normalize_axis_tuple(static(axis), len(shape_of(y)),
                                                                       allow_duplicate=True)
    for k, size in zip(axes, sizes, strict=True):
        starts = np.arange(shape_of(y)[k] - size + 1)
        y = np.moveaxis(ops.take(y, starts[:, None] + np.arange(size), axis=k), k + 1, -1)
    return _sharing(base, y, windows)


@means(np.lib.stride_tricks.as_strided)
def as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    base = as_array(x)
    memory = views.laid(base)
    sizes = memory.shape if shape is None else tuple(np.atleast_1d(static(shape)).tolist())
    steps = memory.strides if strides is None else tuple(np.atleast_1d(static(strides)).tolist())
    strided = np.lib.stride_tricks.as_strided(memory, sizes, steps, writeable=bool(static(writeable)))
    there, wanted = _offsets(memory.shape, memory.strides).ravel(), _offsets(sizes, steps)
    order = np.argsort(there, kind="stable")
    at = order[np.searchsorted(there[order], wanted).clip(max=len(order) - 1)] if len(order) else order
    if wanted.size and not (len(order) and np.array_equal(there[at], wanted)):
        raise refused("np.lib.stride_tricks.as_strided", "it reads memory between or beyond the numbers of x",
                      "the array that the memory belongs to, in place of x")
    views.place(base).storage.reshaped = True
    y = _sharing(base, ops.take(ops.reshape(base, (-1,)), at.reshape(sizes), axis=0), strided)
    views.place(y).storage.held = "what as_strided returned is written to, and shares memory as no tape describes"
    return y


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Return the distance in bytes of each element of an array from the first."""
    return functools.reduce(np.add.outer, [np.arange(n) * step for n, step in zip(shape, strides)], np.array(0))


def _sharing(base: Any, y: Any, layout: Any) -> Any:
    """Return `y`, which shares memory with `base` though no path of views leads to it; the layout decides whether it is
    read-only.
    """
    y = ops.copy(y)
    storage = views.place(y).storage
    storage.layout, storage.reshaped = layout, True
    views.place(base).storage.relate(storage)
    return y


@means(np.compress)
@laid(rows)
def compress(condition: Array, a: Array, axis: Axis = None, out: Array | None = None) -> Any:
    x, axis = _along(a, axis)
    mask, n = ops.astype(as_array(condition), dtype=np.dtype(bool)), shape_of(x)[axis]
    if len(shape_of(mask)) != 1 or (shape_of(mask)[0] > n and ops.any(mask[n:])):
        np.compress(plain(mask), np.broadcast_to(0.0, shape_of(x)), axis)  # ValueError or IndexError, in NumPy's words
    mask = mask[:n]
    before = (slice(None),) * (axis % len(shape_of(x)))
    within = (*before, slice(shape_of(mask)[0]))
    return ops.read(x[within], index_parts((*before, mask)))  # `x` may be plain, and the mask traced


@means(np.ndarray.compress)
def compress_method(a: Array, condition: Array, axis: Axis = None, out: Array | None = None) -> Any:
    return compress(condition, a, axis, out)


# -- choosing among several arrays


@means(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    choices = [as_array(choice) for choice in choices]
    which = _integers(a, mode, lambda: len(choices))
    shape = np.broadcast_shapes(shape_of(which), *map(shape_of, choices))
    stacked = ops.stack(*[ops.broadcast_to(choice, shape) for choice in choices], axis=0)
    try:
        return ops.take_along_axis(stacked, ops.broadcast_to(which, (1, *shape)), axis=0)[0]
    except IndexError:
        raise ValueError("invalid entry in choice array") from None


@means(np.ndarray.choose)
def choose_method(a: Array, *choices: Any, out: Array | None = None, mode: str = "raise") -> Any:
    return choose(a, choices[0] if len(choices) == 1 else choices, out, mode)


@means(np.select)
@laid(rows)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist) or not len(condlist):
        np.select([np.True_] * len(condlist), [0] * len(choicelist))  # ValueError, in NumPy's words
    y = as_array(default)
    for condition, choice in zip(reversed(list(condlist)), reversed(list(choicelist)), strict=True):
        y = ops.where(as_array(condition), as_array(choice), y)
    return y
