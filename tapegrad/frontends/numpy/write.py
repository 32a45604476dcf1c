"""NumPy's in-place writes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import MutationError, unknown, user_location
from tapegrad.frontends.common import INTEGERS, as_array, as_elements, cast, static
from tapegrad.frontends.numpy.index import index_parts
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import is_tensor, is_writable
from tapegrad.rules.op import Traced, holds_traced
from tapegrad.rules.registry import DISPATCH, means, refused
from tapegrad.trace import views, writes
from tapegrad.trace.call_arguments import rehearse
from tapegrad.trace.global_arrays import write_refused
from tapegrad.tree.flatten import leaves_of


@means(operator.setitem)
def setitem(x: Array, index: Any, value: Array) -> None:
    parts = index_parts(index)
    if (len(parts) == 1 and dtype_of(parts[0]) == np.bool_ and shape_of(parts[0]) == shape_of(x)
        and not views.are_same(x, value)):
        views.check_apart(owned(x), value)
    listed = isinstance(value, (list, tuple)) and type(plain(x)) is np.ndarray
    writes.write(owned(x), parts, as_elements(value, dtype_of(x)) if listed else as_array(value))


def owned(x: Array) -> Any:
    """Return an array that the trace may write to; refuse any other value."""
    if not isinstance(x, Traced):
        raise write_refused()
    return x


def array(x: Array) -> Any:
    """Return an array that the trace may write to; refuse a number, for which NumPy's functions write to a copy or
    raise.
    """
    if isinstance(plain(owned(x)), (int, float, complex, np.generic)):
        raise MutationError(f"a function that writes to arrays got a number, of type {type(plain(x)).__name__}",
                            user_location(), "pass an array: np.array(x)")
    return x


@means("out")
def into(out: Any, result: Any, fn: Callable[..., Any], given: Any) -> Any:
    """Write a result into the `out=` of the call of `fn` that computed it, and return `out`.

    Each function has rules of its own for sizes and dtypes: where `out` and the result differ in shape or dtype, `fn`
    is run on plain arrays to see what it writes.
    """
    if isinstance(out, tuple):
        if isinstance(result, tuple):
            # `out` may be None for some results: those get the broadcast shape too
            shape = np.broadcast_shapes(*(shape_of(one) for one in out if one is not None))
            result = [part if one is not None or shape_of(part) == shape else ops.copy(ops.broadcast_to(part, shape))
                      for one, part in zip(out, result)]
            return tuple(into(one, part, fn, given) for one, part in zip(out, result))
        (out,) = out
    if out is None:
        return result
    if not isinstance(plain(out), np.ndarray) and not is_tensor(plain(out)):
        raise TypeError("return arrays must be of ArrayType")
    if fn in UNWRITTEN:
        return result
    if fn in CONTIGUOUS:
        views.place(owned(out)).storage.reshaped = True
        if not views.lies(out, "C"):
            raise ValueError("output array is not acceptable (must have the right datatype, number of dimensions, and "
                             "be a C-Array)")
    if fn in PIECEWISE:
        views.check_apart(owned(out), *(leaf for leaf in leaves_of(given) if leaf is not out))
    holder, found = plain(owned(out)), np.asarray(plain(result))
    if (holder.shape, holder.dtype) != (found.shape, found.dtype):
        written = rehearse(fn, *given)
        if not holder.size:
            out._tracer.specialise(out)  # there would be something to write at another shape
            return out
        result = fitting(result, holder)
        whole = type(written) is tuple or holder.shape == found.shape
        # a function that writes more than once may read what it has just written
        if not whole and getattr(fn, "signature", None):
            views.check_apart(out, *leaves_of(given[0]))
        if not whole and not _fills(holder, found, written):
            raise refused(f"{fn.__name__} into an array of shape {holder.shape}",
                          f"the result, of shape {found.shape}, fills only a part of it", "out[...] = for that part")
    writes.replace(out, result)
    return out


def _fills(holder: Any, found: Any, written: Any) -> bool:
    """True if `written`, the array after NumPy's write, is the result, broadcast."""
    try:
        whole = np.broadcast_to(found, holder.shape)
    except ValueError:
        return False
    return bool(np.array_equal(written, whole, equal_nan=True))


PIECEWISE = frozenset([np.concatenate, np.stack, np.ptp])
"""Functions that read from their arguments after they have begun to write to `out`."""


def _leaves_out(fn: Callable[..., Any]) -> bool:
    """True for a function that takes `out=` but does not write to it."""
    out = np.zeros((1, 1), complex)
    return fn(np.ones((1, 1)), out=out) is not out


UNWRITTEN = frozenset(filter(_leaves_out, [np.fft.fft2, np.fft.ifft2, np.fft.fftn, np.fft.ifftn]))
"""Functions that do not return the array given as `out=`: ifft2, in some versions of NumPy."""


CONTIGUOUS = frozenset([np.dot, np.ndarray.dot])
"""Functions that write to arrays in C order only, and raise for others; the layout is guarded."""


def fitting(value: Array, holder: Any) -> Any:
    """Return the real part of complex numbers that are written to a real array; NumPy has warned of it."""
    return ops.real(value) if np.iscomplexobj(plain(value)) and holder.dtype.kind != "c" else value


@means(np.copyto)
def copyto(dst: Any, src: Array, casting: Any = "same_kind", where: Array | bool = True) -> None:
    source, mask, holder = as_array(src), as_array(where), plain(array(dst))
    if isinstance(where, (list, tuple)):
        mask = ops.astype(mask, dtype=np.dtype(bool))  # np.copyto casts a list, but no array
    if views.are_same(dst, source):
        return  # NumPy does not check the mask then
    # ValueError and TypeError, in NumPy's words
    np.copyto(np.empty(holder.shape, holder.dtype), plain(source), casting, plain(mask))
    source = fitting(source, holder)
    if holder.dtype.kind in "iu" and not shape_of(source):
        source = cast(source, holder.dtype, checked=INTEGERS)
    setitem(dst, Ellipsis, source if where is True else ops.where(mask, source, dst))


@means(np.ndarray.fill)
def fill(a: Array, value: Array) -> None:
    if isinstance(number := plain(owned(a)), np.generic):  # NumPy fills a copy of a scalar
        number.fill(plain(as_array(value)))
        return
    if np.ndim(plain(as_array(value))):
        # ValueError or TypeError, in NumPy's words
        np.zeros(shape_of(array(a)), dtype_of(a)).fill(plain(as_array(value)))
        value = ops.reshape(as_array(value), ())
    setitem(a, Ellipsis, value)


def _cyclic(values: Array, positions: Any) -> Any:
    """Return the values at flat positions; they are repeated cyclically."""
    flat = ops.reshape(as_array(values), (-1,))
    return ops.take(flat, positions % shape_of(flat)[0], axis=0)


def _write_flat(a: Array, positions: Any, values: Array) -> None:
    """Write values, repeated cyclically, at flat positions, which are plain integers."""
    values = as_elements(values, dtype_of(a))
    if not np.size(positions) or not np.size(plain(values)):
        return
    if np.ndim(positions) and not shape_of(a):
        a = ops.reshape(a, (1,))  # an array of indices cannot address a 0-dimensional array
    where = np.unravel_index(positions, shape_of(a))
    setitem(a, where,
            _cyclic(values, np.arange(np.size(positions)).reshape(np.shape(positions))) if shape_of(values) else values)


def _positions(a: Array, indices: Array, mode: str = "raise") -> Any:
    size = int(np.prod(shape_of(a), dtype=np.intp))
    positions = np.asarray(static_array(indices))
    positions = positions if positions.size else positions.astype(np.intp)  # an empty list becomes an array of floats
    if mode == "clip":
        return np.clip(positions, 0, size - 1)
    if mode == "wrap":
        return positions % size
    return np.arange(size)[positions]  # IndexError, in NumPy's words


def _lists(x: Array) -> Any:
    """Return nested tuples as lists, which NumPy converts to an array."""
    return list(map(_lists, x)) if isinstance(x, tuple) else x


def _as_given(values: Array) -> Any:
    """Return plain values, a list as a list: NumPy casts the numbers of a list differently from those of an array."""
    if isinstance(values, (list, tuple)) and not isinstance(values, Traced):
        return [_as_given(part) for part in values]
    return plain(as_array(values))


def static_array(indices: Array) -> Any:
    """Return positions to write to as plain integers; traced ones are guarded one by one."""
    return static(indices) if isinstance(indices, (Traced, list, tuple)) else indices


@means(np.put)
def put(a: Array, ind: Any, v: Array, mode: str = "raise") -> None:
    positions, holder = _positions(array(a), ind, mode).ravel(), plain(a)
    check_writable(a)
    np.put(np.empty(holder.shape, holder.dtype), positions, _as_given(v))  # ValueError and TypeError, in NumPy's words
    _write_flat(a, positions, fitting(as_elements(v, holder.dtype), holder))


def check_writable(x: Array) -> None:
    """Raise NumPy's error for a read-only array, even if there is nothing to write."""
    written = array(x)
    view = views.place(written)
    writes.check_unlocked(view)
    writes.guard_writable(view.storage, written._tracer)
    view.storage.check_writable()
    if not is_writable(plain(x)):
        raise ValueError("assignment destination is read-only")


@means(np.ndarray.put)
def put_method(a: Array, indices: Array, values: Array, mode: str = "raise") -> None:
    put(a, indices, values, mode)


@means(np.putmask)
def putmask(a: Array, mask: Array, values: Array) -> None:
    shape, chosen = shape_of(array(a)), as_array(mask)
    check_writable(a)
    # ValueError and TypeError, in NumPy's words
    np.putmask(np.zeros(shape, dtype_of(a)), plain(chosen), _as_given(values))
    if shape_of(chosen) != shape:
        chosen = ops.reshape(ops.astype(chosen, dtype=np.dtype(bool)), shape)
    if np.size(plain(as_array(values))):
        values = as_elements(values, dtype_of(a))
        setitem(a, Ellipsis, ops.where(chosen, ops.reshape(_cyclic(values, np.arange(int(np.prod(shape)))), shape), a))


@means(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    chosen = np.flatnonzero([bool(part) for part in ops.reshape(as_array(mask), (-1,))])
    check_writable(arr)
    # ValueError and TypeError, in NumPy's words
    np.place(np.zeros(shape_of(arr), dtype_of(arr)), plain(as_array(mask)), _as_given(vals))
    if not chosen.size:
        return
    views.check_apart(arr, vals)
    _write_flat(arr, chosen, vals)


@means(np.fill_diagonal)
def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    shape = shape_of(array(a))
    blank = np.zeros(shape, bool)
    np.fill_diagonal(blank, True, wrap)
    views.check_apart(a, val)
    _write_flat(a, np.flatnonzero(blank), val)


@means(np.put_along_axis)
def put_along_axis(arr: Array, indices: Any, values: Any, axis: Any) -> None:
    x = array(arr) if axis is not None else ops.reshape(array(arr), (-1,))
    setitem(x, ops.positions_along(shape_of(x), as_array(indices), 0 if axis is None else static(axis)), values)


@means("at")
def add_at(ufunc: Any, a: Any, indices: Any, b: Any = None) -> None:
    """Apply `ufunc.at`, which is unbuffered: an index that occurs twice is added to twice."""
    if not is_writable(plain(array(a))):
        raise refused(f"{ufunc.__name__}.at of a read-only array",
                      "NumPy writes to its memory all the same, and arrays that share it would see that",
                      "write to a copy")
    if ufunc.__name__ not in ("add", "subtract"):
        return _apply_at(ufunc, a, index_parts(indices), b)
    piece = as_array(b)
    added = ops.assemble(array(a), [piece if ufunc.__name__ == "add" else ops.negative(piece)], [index_parts(indices)])
    total = ops.add(a, added)
    if not np.can_cast(dtype_of(total), dtype_of(a), "same_kind"):
        raise refused(f"{ufunc.__name__}.at of {dtype_of(total)} into {dtype_of(a)}",
                      "NumPy rounds each intermediate sum",
                      "add to an array of floats")
    writes.replace(a, total)


def _apply_at(ufunc: np.ufunc, a: Array, index: tuple[Any, ...], b: Array) -> None:
    """Apply another ufunc in rounds: the k-th round handles the k-th occurrence of each position, so that a position
    occurs once in a round.
    """
    if ufunc not in DISPATCH or ufunc.nout != 1:
        raise unknown(ufunc.at)
    shape = shape_of(a)
    places = np.arange(int(np.prod(shape))).reshape(shape)[tuple(map(static_array, index))]
    flat, size = np.ravel(places), np.size(places)
    order = np.argsort(flat, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(flat[order]) != 0])
    turn = np.empty(size, int)
    turn[order] = np.arange(size) - np.repeat(first, np.diff(np.r_[first, size])) if size else 0
    operand: Any = None if b is None else ops.reshape(ops.broadcast_to(as_array(b), np.shape(places)), (-1,))
    for number in range(turn.max(initial=-1) + 1):
        chosen = np.flatnonzero(turn == number)
        where = np.unravel_index(flat[chosen], shape)
        given = (a[where],) if b is None else (a[where], ops.take(operand, chosen, axis=0))
        result = DISPATCH[ufunc](*given)
        if not np.can_cast(dtype_of(result), dtype_of(a), "same_kind"):
            raise refused(f"{ufunc.__name__}.at of {dtype_of(result)} into {dtype_of(a)}",
                          "NumPy rounds each intermediate result",
                          "use an array of floats")
        setitem(a, where, result)


class Flat:
    """The counterpart of `x.flat`: reads and writes by flat position, where a read returns a copy. It is an iterator,
    which a read or a write resets.
    """

    __hash__: Any = None

    def __init__(self, x: Array) -> None:
        self.x, self.index = x, 0

    @property
    def base(self) -> Any:
        """Return the array; a new one for a number."""
        return self.x if isinstance(self.x, np.ndarray) else ops.array(self.x)

    @property
    def coords(self) -> tuple[int, ...]:
        """Return the coordinates of the next element."""
        shape = shape_of(self.x)
        if self.index == len(self):
            return (*shape[:1], *[0] * len(shape[1:]))
        return tuple(map(int, np.unravel_index(self.index, shape)))

    def copy(self) -> Any:
        """Return the elements in a new array."""
        return ops.copy(ops.reshape(self.x, (-1,)))

    def __getitem__(self, index: Any) -> Any:
        self.index = 0
        if type(index) is int:  # a fast path for loops over elements
            return ops.read(self.x, tuple(map(int, np.unravel_index(range(len(self))[index], shape_of(self.x)))))
        index = self._known(index)
        if index is None:
            return self.base
        y = ops.read(ops.reshape(self.x, (-1,)), index_parts(index))
        return ops.copy(y) if isinstance(index, slice) or index is Ellipsis else y

    def _known(self, index: Any) -> Any:
        """Return an index in the form that arrays take; None if NumPy 2.2 returns the array itself for it. NumPy's
        iterator has rules and errors of its own.
        """
        if isinstance(index, tuple) and len(index) == 1:
            index = index[0]
        if isinstance(index, (slice, Traced)) or index is Ellipsis or (isinstance(index, (list, tuple))
                                                                       and holds_traced(index)):
            return index
        places = np.arange(len(self)).reshape(shape_of(self.x))
        found = places.flat[index]
        return None if found is places else found

    def __setitem__(self, index: Any, value: Array) -> None:
        self.index = 0
        holder = plain(array(self.x))
        value = as_elements(value, holder.dtype) if isinstance(value, (list, tuple)) else as_array(value)
        if not isinstance(index, slice) or index != slice(None) or not views.are_same(self.x, value):
            views.check_apart(self.x, value)
        index = (_lists(static(index)) if isinstance(index, list) else index if type(index) is int
                 else static_array(index))
        self._rehearse(index, plain(value), holder)
        if not np.size(plain(value)):
            return
        positions = range(len(self))[index] if type(index) is int else np.arange(len(self)).flat[index]
        _write_flat(self.x, positions, fitting(value, holder))

    def _rehearse(self, index: Any, value: Array, holder: Any) -> None:
        """Raise and warn as NumPy does."""
        one = np.empty(1)
        if isinstance(index, tuple) and not index and one.flat[index] is one:  # such a write crashes NumPy 2.2
            raise IndexError("Assigning to a flat iterator with a 0-D index is not supported")
        if type(index) is int and holder.flags.writeable:  # a fast path for loops over elements
            range(len(self))[index]
            np.empty(1, holder.dtype).flat[0] = value
            return
        blank = np.empty(holder.shape, holder.dtype)
        blank.flags.writeable = holder.flags.writeable
        blank.flat[index] = value

    def __len__(self) -> int:
        return int(np.prod(shape_of(self.x)))

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        at = self.index
        if at == len(self):
            raise StopIteration
        y = self[at]
        self.index = at + 1
        return y


for _compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
    setattr(Flat, f"__{_compare.__name__}__", lambda self, other, compare=_compare: compare(self.copy(), other))
means(np.ndarray.flat)(Flat)
