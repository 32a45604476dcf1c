"""NumPy's functions that iterate over an array and call a Python function for each number, row or piece."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tapegrad import ops
from tapegrad.frontends.common import as_array, cast, kept, laid, static
from tapegrad.frontends.numpy.index import getitem
from tapegrad.frontends.numpy.numeric import as_dtype
from tapegrad.frontends.numpy.shape import moveaxis, numpy_dtype, rank
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.index import is_mask
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH, means, refused

FEW = 32  # below this count, calls recorded one by one take less time than a batch of them
_AS_PYTHON = {char: np.dtype(python) for char, python in
              [("?", bool), *dict.fromkeys("bhilqBHI", int).items(), *dict.fromkeys("efd", float).items(),
               *dict.fromkeys("FD", complex).items()]}
"""The dtype of the Python number that `item` returns, for each dtype character."""


def _gathered(results: Sequence[Any], shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return an array of results, one for each index of `shape`; without `dtype` the first result decides, as in NumPy.
    """
    first, listed = as_array(results[0]), dtype is not None
    dtype = dtype if listed else numpy_dtype(first)
    parts = [_fitted(cast(as_array(result), dtype, listed), shape_of(first)) for result in results]
    return ops.reshape(ops.stack(*parts, axis=0), shape + shape_of(first))


def _fitted(x: Array, shape: tuple[int, ...]) -> Any:
    """Return a result broadcast to the shape of the first one, as NumPy writes it into the array of results."""
    if shape_of(x) == shape:
        return x
    np.empty(shape)[...] = np.empty(shape_of(x))  # ValueError, in NumPy's words
    return ops.broadcast_to(ops.reshape(x, shape_of(x)[max(len(shape_of(x)) - len(shape), 0):]), shape)


# -- along and over axes


@means(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: Any, arr: Array, *args: Any, **kwargs: Any) -> Any:
    x = as_array(arr)
    axis = normalize_axis_index(static(axis), rank(x))
    rows = moveaxis(x, axis, -1)
    shape = shape_of(rows)[:-1]
    results = [func1d(rows[row], *args, **kwargs) for row in ((*place, ...) for place in np.ndindex(*shape))]
    if not results:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    y = _gathered(results, shape)
    order = list(range(rank(y)))
    new = order[len(shape):]
    return ops.permute_dims(y, axes=(*order[:axis], *new, *order[axis: len(shape)])) if new and axis < len(shape) else y


# -- np.vectorize


@means(np.vectorize.__call__)
def vectorized(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the Python function once for each position: on Python numbers, or on the core dimensions of a signature."""
    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    varied = [key for key in given if key not in self.excluded]
    held = [key for key in given if key in self.excluded]
    fixed = [self.pyfunc, *[given[key] for key in held]]

    def call(fn: Any, *values: Any) -> Any:
        full = dict(zip([*held, *varied], values))
        return fn(*[full.pop(i) for i in range(len(args))], **full)

    xs = [as_array(given[key]) for key in varied]
    if self.signature is not None:
        return _with_signature(self, lambda values: call(*fixed, *values), xs)
    shape = np.broadcast_shapes(*map(shape_of, xs))
    if not np.prod(shape, dtype=int) and self.otypes is None:
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    tried = [call(*fixed, *map(_first, xs))] if self.otypes is None else []
    types = self.otypes or [numpy_dtype(as_array(part)) for part in _parts(tried[0])]
    if not self.cache and (found := _at_once(call, fixed, xs, shape, len(types), types)) is not None:
        return found
    places = list(zip(*[_numbers(x, shape) for x in xs]))
    results = [*tried, *[call(*fixed, *numbers) for numbers in places[1:]]] if tried and self.cache else [
        call(*fixed, *numbers) for numbers in places]
    if not results:
        empty = tuple(np.empty(shape, dtype) for dtype in types)
        return empty if len(empty) > 1 else empty[0]
    if len(types) == 1:
        return _made_of(results, shape, types[0])
    if any(not isinstance(result, tuple) or len(result) != len(types) for result in results):
        raise ValueError(f"wrong number of outputs from pyfunc: expected {len(types)}")
    return tuple(_made_of(part, shape, dtype) for part, dtype in zip(zip(*results), types))


def _made_of(results: Sequence[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the array of one output; an array of objects if a result is not a number."""
    if any(isinstance(result, (tuple, list)) or rank(as_array(result)) for result in results):
        if dtype is not None and not np.dtype(dtype).hasobject:
            raise ValueError("setting an array element with a sequence.")
        y = np.empty(len(results), object)
        for at, result in enumerate(results):
            y[at] = result
        return y.reshape(shape)
    return np.reshape(as_array(list(results)), shape) if dtype is None else _gathered(results, shape, dtype)


def _parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _at_once(call: Callable[..., Any], fixed: Sequence[Any], xs: Sequence[Array], shape: tuple[int, ...], count: int,
             types: Sequence[Any] | None = None) -> Any:
    """Return the results for all positions, `count` each, cast to `types`, from one trace of `call(*fixed, *numbers)`;
    None if each position needs a call of its own.
    """
    size = int(np.prod(shape))
    if size < FEW or any(is_tensor(plain(x)) or numpy_dtype(x).char not in _AS_PYTHON for x in xs):
        return None
    columns = [_numbers(x, shape_of(x))[0] if np.prod(shape_of(x)) == 1 else
               ops.reshape(ops.broadcast_to(as_dtype(x, _AS_PYTHON[numpy_dtype(x).char]), shape), (size,)) for x in xs]

    def one(*given: Any) -> Any:
        result = call(*given)
        parts = list(map(as_array, _parts(result)))
        if isinstance(result, tuple) == (count == 1) or len(parts) != count:
            raise ValueError(f"wrong number of outputs from pyfunc: expected {count}, got {len(parts)}")
        if any(rank(part) or numpy_dtype(part).char not in _AS_PYTHON for part in parts):
            raise ValueError("setting an array element with a sequence.")
        if types is not None:
            parts = [cast(part, dtype, listed=True) for part, dtype in zip(parts, types, strict=True)]
        return tuple(parts) if isinstance(result, tuple) else parts[0]
    found = DISPATCH["each number"](one, fixed, columns)
    if found is None:
        return None
    found = [ops.reshape(part, shape) for part in _parts(found)]
    return tuple(found) if count > 1 else found[0]


def _first(x: Array) -> Any:
    """Return the first number of an array as a NumPy scalar: np.vectorize calls the function with it to find the dtype
    of the result.
    """
    return getitem(ops.reshape(x, (int(np.prod(shape_of(x))),)), 0) if isinstance(x, Traced) else np.asarray(x).flat[0]


def _numbers(x: Array, shape: tuple[int, ...]) -> list[Any]:
    """Return the elements of an array, broadcast to a shape, as Python numbers."""
    if not isinstance(x, Traced):
        return list(np.broadcast_to(np.asarray(x, object), shape).flat)
    size = int(np.prod(shape_of(x)))
    flat = ops.reshape(x, (size,)) if rank(x) != 1 else x
    numbers = [ops.item(flat, i) for i in range(size)]
    return [numbers[i] for i in np.broadcast_to(np.arange(size).reshape(shape_of(x)), shape).ravel()]


def _with_signature(self: Any, call: Callable[[Any], Any], xs: list[Any]) -> Any:
    inputs, outputs = self._in_and_out_core_dims
    if len(xs) != len(inputs):
        raise TypeError(f"wrong number of positional arguments: expected {len(inputs)}, got {len(xs)}")
    sizes: dict[str, int] = {}
    for x, names in zip(xs, inputs):
        if rank(x) < len(names):
            raise ValueError(f"{rank(x)}-dimensional argument does not have enough dimensions for all core dimensions "
                             f"{names!r}")
        for name, size in zip(names, shape_of(x)[rank(x) - len(names):]):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"inconsistent size for core dimension {name!r}: {size!r} vs {sizes[name]!r}")
    shape = np.broadcast_shapes(*[shape_of(x)[: rank(x) - len(names)] for x, names in zip(xs, inputs)])
    wide = [ops.broadcast_to(x, shape + tuple(sizes[name] for name in names)) for x, names in zip(xs, inputs)]
    results = [call([x[place] for x in wide]) for place in np.ndindex(*shape)]
    if not results:
        raise refused("np.vectorize with a signature", "it was called on no elements",
                      "return early for empty arrays")
    types = self.otypes or [None] * len(outputs)
    if len(outputs) == 1:
        return _gathered(results, shape, types[0])
    if not isinstance(results[0], tuple) or len(results[0]) != len(outputs):
        got = len(results[0]) if isinstance(results[0], tuple) else 1
        raise ValueError(f"wrong number of outputs from pyfunc: expected {len(outputs)}, got {got}")
    return tuple(_gathered(part, shape, dtype) for part, dtype in zip(zip(*results), types))


# -- np.frompyfunc


@means("frompyfunc")
def from_python(ufunc: np.ufunc, *args: Any) -> Any:
    """Call the Python function of an `np.frompyfunc` ufunc for each position; return NotImplemented for another ufunc.

    Results are arrays of numbers, where NumPy's are arrays of objects.
    """
    compiled = getattr(ufunc, "_dispatcher", None)  # numba's
    fn = next((x for x in gc.get_referents(ufunc) if callable(x)), None) if compiled is None else compiled.py_func
    if fn is None:
        return NotImplemented
    xs = list(map(as_array, args))
    shape = np.broadcast_shapes(*map(shape_of, xs))
    if (found := _at_once(_called, [fn], xs, shape, ufunc.nout)) is not None:
        return found
    results = [fn(*numbers) for numbers in zip(*[_numbers(x, shape) for x in xs])]
    if not shape:
        return results[0]
    found = tuple([_made_of(part, shape, None) for part in ([results] if ufunc.nout == 1 else zip(*results))])
    return found if ufunc.nout > 1 else found[0]


def _called(fn: Callable[..., Any], *numbers: Any) -> Any:
    return fn(*numbers)


# -- np.piecewise


@means(np.piecewise)
@laid(kept)
def piecewise(x: Array, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    x = as_array(x)
    single = isinstance(condlist, (bool, np.bool_)) or (not isinstance(condlist[0], (list, np.ndarray)) and rank(x))
    pieces = [as_dtype(as_array(c), np.dtype(bool)) for c in ([condlist] if single else condlist)]
    np.asarray([plain(piece) for piece in pieces])  # ValueError, in NumPy's words, if their shapes differ
    if len(pieces) == len(funclist) - 1:
        pieces.append(ops.logical_not(ops.any(ops.stack(*pieces, axis=0), axis=0)))
    elif len(pieces) != len(funclist):
        raise ValueError(f"with {len(pieces)} condition(s), either {len(pieces)} or {len(pieces) + 1} functions are "
                         "expected")
    x = x if isinstance(x, np.ndarray) else ops.reshape(x, ())
    y: Any = np.zeros(shape_of(x), numpy_dtype(x))
    for piece, value in zip(pieces, funclist):
        if callable(value):
            part = getitem(x, piece) if isinstance(x, Traced) or is_mask(piece) else x[piece]
            if not part.size:
                continue
            value = value(part, *args, **kw)
        y = ops.setitem(y, as_array(value), piece)
    return y


# -- np.ndenumerate


class _Places:
    """The iterator behind `ndenumerate`: an array's numbers, and the coordinates of the next one."""

    def __init__(self, x: Array) -> None:
        self.x, self.rest = x, np.ndindex(*shape_of(x))
        self.coords = next(self.rest, None)

    def __next__(self) -> Any:
        if self.coords is None:
            raise StopIteration
        place, self.coords = self.coords, next(self.rest, None)
        return self.x[place] if place else self.x


@means(np.ndenumerate.__init__)
def enumerated(self: Any, arr: Array) -> None:
    self.iter = _Places(as_array(arr))
