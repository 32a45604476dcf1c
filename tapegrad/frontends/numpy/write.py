"""NumPy's writes in place."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import MutationError, UnknownFunction, user_location
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.numpy.index import index_parts
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.registry import Traced, means, refused
from tapegrad.trace import views
from tapegrad.tree.flatten import flatten, leaves_of


@means(operator.setitem)
def setitem(x: Any, index: Any, value: Any) -> None:
    parts = index_parts(index)
    if len(parts) == 1 and dtype_of(parts[0]) == np.bool_ and shape_of(parts[0]) == shape_of(x) and not views.are_same(x, value):
        views.check_apart(owned(x), value)
    views.write(owned(x), parts, as_array(value))


def owned(x: Any) -> Any:
    """Return an array that the trace may write to; refuse any other."""
    if not isinstance(x, Traced):
        raise MutationError("a traced value is written into an array that the trace does not own", user_location(),
                            "make the array inside the function (np.zeros), or pass it as an argument")
    return x


def array(x: Any) -> Any:
    """Return an array that the trace may write to; refuse a number, of which NumPy's functions write to a copy, or raise."""
    if isinstance(plain(owned(x)), (int, float, complex, np.generic)):
        raise MutationError(f"a number, of type {type(plain(x)).__name__}, is written to by a function for arrays", user_location(),
                            "an array: np.array(x)")
    return x


@means("out")
def into(out: Any, result: Any, fn: Any, given: Any) -> Any:
    """Write a result into the `out=` of the call of `fn` that computed it, and return that.

    Into what sizes and dtypes, each function decides for itself: where the array is not just like the result, it is asked.
    """
    if isinstance(out, tuple):
        if isinstance(result, tuple):
            return tuple(into(one, part, fn, given) for one, part in zip(out, result))
        (out,) = out
    if out is None:
        return result
    if fn in PIECEWISE:
        views.check_apart(owned(out), *(leaf for leaf in leaves_of(given) if leaf is not out))
    holder, found = plain(owned(out)), np.asarray(plain(result))
    if (holder.shape, holder.dtype) != (found.shape, found.dtype):
        written = rehearse(fn, *given)
        result = fitting(result, holder)
        whole = type(written) is tuple or holder.shape == found.shape
        if not whole and not np.array_equal(written, np.broadcast_to(plain(result), holder.shape), equal_nan=True):
            raise refused(f"{fn.__name__} into an array of shape {holder.shape}", f"the result, of shape {found.shape}, fills a part of it",
                          "out[...] = for that part")
    views.replace(out, result)
    return out


PIECEWISE = frozenset([np.concatenate, np.stack, np.ptp])
"""Those that read of their arguments after they have begun to write."""


def rehearse(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what NumPy's function gives of plain values, and of copies of what it writes to: it raises and warns as it does."""
    leaves: list[Any] = []
    structure = flatten((args, kwargs), "", leaves, [], shared=False)
    args, kwargs = structure.build([np.copy(plain(x)) if isinstance(x, Traced) and shape_of(plain(x)) else plain(x) for x in leaves])
    return fn(*args, **kwargs)


def fitting(value: Any, holder: Any) -> Any:
    """Return what is left of complex numbers in an array of real ones; NumPy has warned of it."""
    return ops.real(value) if np.iscomplexobj(plain(value)) and holder.dtype.kind != "c" else value


@means(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    source, mask, holder = as_array(src), as_array(where), plain(array(dst))
    if views.are_same(dst, source):
        return  # and NumPy does not look at the mask
    np.copyto(np.empty(holder.shape, holder.dtype), plain(source), casting, plain(mask))  # ValueError and TypeError, in NumPy's words
    source = fitting(source, holder)
    setitem(dst, Ellipsis, source if where is True else ops.where(mask, source, dst))


@means(np.ndarray.fill)
def fill(a: Any, value: Any) -> None:
    if np.ndim(plain(as_array(value))):
        np.zeros(shape_of(array(a)), dtype_of(a)).fill(plain(as_array(value)))  # ValueError or TypeError, in NumPy's words
        value = ops.reshape(as_array(value), ())
    setitem(a, Ellipsis, value)


def _cyclic(values: Any, positions: Any) -> Any:
    """Return the values at flat positions, repeated as often as it takes."""
    flat = ops.reshape(as_array(values), (-1,))
    return ops.take(flat, positions % shape_of(flat)[0], axis=0)


def _write_flat(a: Any, positions: Any, values: Any) -> None:
    """Write at flat positions, which are plain integers; values repeat."""
    where, values = np.unravel_index(positions, shape_of(owned(a))), as_array(values)
    setitem(a, where, _cyclic(values, np.arange(np.size(positions)).reshape(np.shape(positions))) if shape_of(values) else values)


def _positions(a: Any, indices: Any, mode: str = "raise") -> Any:
    size = int(np.prod(shape_of(a), dtype=np.intp))
    positions = np.asarray(static_array(indices))
    if mode == "clip":
        return np.clip(positions, 0, size - 1)
    if mode == "wrap":
        return positions % size
    return np.arange(size)[positions]  # IndexError, in NumPy's words


def static_array(indices: Any) -> Any:
    """Return where to write as plain integers; traced ones are guarded, number by number."""
    return static(indices) if isinstance(indices, (Traced, list, tuple)) else indices


@means(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    _write_flat(a, _positions(array(a), ind, mode).ravel(), v)


@means(np.ndarray.put)
def put_method(a: Any, indices: Any, values: Any, mode: str = "raise") -> None:
    put(a, indices, values, mode)


@means(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    shape, chosen = shape_of(array(a)), as_array(mask)
    if shape_of(chosen) != shape:
        np.putmask(np.zeros(shape), plain(chosen), 0)  # ValueError, in NumPy's words
        chosen = ops.reshape(ops.astype(chosen, dtype=np.dtype(bool)), shape)
    if np.size(plain(as_array(values))):
        setitem(a, Ellipsis, ops.where(chosen, ops.reshape(_cyclic(values, np.arange(int(np.prod(shape)))), shape), a))


@means(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    chosen = np.flatnonzero([bool(part) for part in ops.reshape(as_array(mask), (-1,))])
    np.place(np.zeros(shape_of(array(arr))), plain(as_array(mask)), plain(as_array(vals)).real)  # ValueError, in NumPy's words
    if not chosen.size:
        return
    views.check_apart(arr, vals)
    _write_flat(arr, chosen, vals)


@means(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    shape = shape_of(array(a))
    blank = np.zeros(shape, bool)
    np.fill_diagonal(blank, True, wrap)
    views.check_apart(a, val)
    _write_flat(a, np.flatnonzero(blank), val)


@means(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    x = array(arr) if axis is not None else ops.reshape(array(arr), (-1,))
    setitem(x, ops.positions_along(shape_of(x), as_array(indices), 0 if axis is None else static(axis)), values)


@means("at")
def add_at(ufunc: Any, a: Any, indices: Any, b: Any = None) -> None:
    """Apply `ufunc.at`: unbuffered, so that a place named twice is added to twice."""
    if ufunc.__name__ not in ("add", "subtract"):
        raise UnknownFunction(f"{ufunc.__name__}.at is not known for traced arrays", user_location(), "a loop over the indices")
    piece = as_array(b)
    added = ops.assemble(array(a), [piece if ufunc.__name__ == "add" else ops.negative(piece)], [index_parts(indices)])
    total = ops.add(a, added)
    if not np.can_cast(dtype_of(total), dtype_of(a), "same_kind"):
        raise refused(f"{ufunc.__name__}.at of {dtype_of(total)} into {dtype_of(a)}", "NumPy rounds each sum", "an array of floats to add to")
    views.replace(a, total)


class Flat:
    """What `x.flat` gives: reads and writes by flat position; what is read is no view."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int:  # the loop over elements
            return ops.read(self.x, tuple(map(int, np.unravel_index(range(len(self))[index], shape_of(self.x)))))
        y = ops.read(ops.reshape(self.x, (-1,)), index_parts(index))
        return ops.copy(y) if isinstance(index, slice) or index is Ellipsis else y

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice) or index != slice(None) or not views.are_same(self.x, value):
            views.check_apart(owned(self.x), value)
        _write_flat(self.x, (range(len(self)) if type(index) is int else np.arange(len(self)))[index], value)

    def __len__(self) -> int:
        return int(np.prod(shape_of(self.x)))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


means(np.ndarray.flat)(Flat)
