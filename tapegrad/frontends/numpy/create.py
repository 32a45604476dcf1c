"""NumPy's constructors: of arrays like a traced one, from traced bounds, or for the program to write to."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import INTEGERS, as_array, as_elements, cast, static
from tapegrad.frontends.numpy.elementwise import copy
from tapegrad.frontends.numpy.shape import (
    broadcast_arrays,
    integers,
    moveaxis,
    numpy_dtype,
    rank,
)
from tapegrad.numbers.cotangents import dtype_of, has_dtype, layout_of, shape_of
from tapegrad.numbers.dtypes import NUMERIC, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, DType
from tapegrad.numbers.systems import kind_within
from tapegrad.numbers.tensors import ORDINARY, is_tensor
from tapegrad.numbers.text import Text
from tapegrad.rules.op import Traced, holds_traced, tracer_of
from tapegrad.rules.registry import DISPATCH, constructs, means, refused, register
from tapegrad.trace import views
from tapegrad.trace.call_arguments import shown_array
from tapegrad.tree.flatten import leaves_of
from tapegrad.tree.sparse import is_sparse


def numeric(dtype: DType) -> bool:
    """True for a dtype that a traced array can have."""
    return letter(np.dtype(dtype)) in NUMERIC


def of_objects(tracer: Any, dtype: DType) -> bool:
    """True for the object dtype, if an input of the trace is an array of numbers that are objects."""
    return np.dtype(dtype).hasobject and any(kind_within(plain(x.val)) is not None for x in tracer.tape.inputs[1:])


# -- constructors called by the program. Their results are traced, so that they can be written to.


@constructs(np.zeros, np.ones, np.empty)
def filled(tracer: Any, fn: Callable[..., Any], shape: Any, dtype: DType = float, order: str = "C",
           **other: Any) -> Any:
    if not numeric(dtype) and (fn is np.empty or not of_objects(tracer, dtype)):
        return fn(shape, dtype, order, **other)
    return tracer.record(_FILLED[fn], (integers(shape),), _described(dtype, order))


_FILLED = {np.zeros: ops.zeros, np.ones: ops.ones, np.empty: ops.empty}


def _described(dtype: DType, order: str) -> dict[str, Any]:
    return {**({} if dtype in (float, None) else {"dtype": np.dtype(dtype)}),
            **({} if order == "C" else {"order": order})}


@constructs(np.full)
def full(tracer: Any, fn: Any, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **other: Any) -> Any:
    value = as_array(fill_value)
    if isinstance(value, Traced):
        # of Python numbers np.full checks the range of integers only
        value = value if dtype is None else cast(value, dtype, checked=INTEGERS)
        return ops.copy(spread(value, integers(shape)), **({"order": "F"} if order == "F" else {}))
    if not numeric(np.asarray(value).dtype if dtype is None else dtype):
        return fn(shape, value, dtype, order, **other)
    # without `dtype` the dtype is the value's, not float
    typed = {} if dtype is None else {"dtype": np.dtype(dtype)}
    return tracer.record(ops.full, (integers(shape), value), {**typed, **_described(float, order)})


def spread(value: Any, shape: Any) -> Any:
    """Return a value broadcast to a shape as an assignment does it: surplus leading axes of length 1 are dropped."""
    shape = shape if isinstance(shape, tuple) else (shape,)
    have = shape_of(value)
    extra = max(len(have) - len(shape), 0)
    np.empty(shape, bool)[...] = np.empty(have, bool)  # ValueError, in NumPy's words
    return ops.broadcast_to(value if not extra else ops.reshape(value, have[extra:]), shape)


_ORDERS = {"ascontiguousarray": "C", "asfortranarray": "F"}


@constructs(np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray)
def array(tracer: Any, fn: Any, a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    a = shown_array(a)
    if type(a) in (list, tuple) and dtype is not None and not numeric(dtype) and not holds_traced(a):
        _refuse_text(a)
        return constant(tracer, fn, a, dtype, *args, **kwargs)  # a tuple may be a record
    listed = type(a) in (list, tuple) and dtype is not None and numeric(dtype)
    value = as_elements(a, dtype) if listed else as_array(a)
    if not isinstance(value, Traced):
        if isinstance(value, str) or getattr(dtype_of(value), "kind", "f") in "UO":
            _refuse_text(a)
        if is_sparse(value) and isinstance(getattr(value, "data", None), Traced):
            raise refused(f"np.{fn.__name__} of a sparse matrix", "NumPy makes an array of objects from it",
                          "A.toarray()")
        if hasattr(type(value), "__array_interface__") and not isinstance(value, (np.ndarray, np.generic)):
            return fn(value, dtype, *args, **kwargs)  # refused elsewhere if it leads to a traced array
        # of a list the array is new, and may be written to
        return constant(tracer, fn, a if isinstance(a, (list, tuple)) else value, dtype, *args, **kwargs)
    if fn.__name__ in _ORDERS and not shape_of(value):
        # these two return at least one axis
        value = ops.reshape(value if isinstance(value, np.ndarray) else ops.array(value), (1,))
    if is_tensor(value):
        value = value.numpy()  # type: ignore[attr-defined]
    order, fresh = _ORDERS.get(fn.__name__) or kwargs.get("order") or (args[0] if args else None) or "K", value is not a
    if dtype is not None and not has_dtype(value, np.dtype(dtype)):
        value, fresh = cast(value, dtype), True
    if dtype_of(value) is None or not isinstance(value, np.ndarray):
        value, fresh = ops.array(value), True  # a number becomes an array
    ndmin, copied = kwargs.get("ndmin", 0), kwargs.get("copy", True if fn.__name__ == "array" else None)
    if isinstance(copied, np._CopyMode):  # type: ignore[attr-defined]
        copied = {"ALWAYS": True, "NEVER": False}.get(copied.name)
    if copied is False:
        value._tracer.guard_layout()
        if fresh or not views.lies(value, order):
            raise ValueError("Unable to avoid copy while creating an array as requested.")
    value = copy(value, order) if not fresh and copied else views.arranged(value, order, copied=fresh)
    return ops.reshape(value, (1,) * (ndmin - rank(value)) + shape_of(value)) if ndmin > rank(value) else value


@means(np.require)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    wanted = {part.upper()[0] if part.upper() in _FULL else part.upper() for part in requirements or ()}
    if wanted - set("CFAEWO"):
        raise ValueError(f"Unrecognized requirement: {sorted(wanted - set('CFAEWO'))[0]}")
    order = [part for part in "CF" if part in wanted]
    if len(order) > 1:
        raise ValueError("Cannot specify both \"C\" and \"F\" order")
    y = array(tracer_of((a,)), np.asanyarray, a, dtype, order=order[0] if order else "A")
    own = plain(y).flags
    if ("O" in wanted and not own.owndata) or ("W" in wanted and not own.writeable):
        y._tracer.guard_layout()
        return copy(y, "K")
    return y


_FULL = frozenset(["C_CONTIGUOUS", "CONTIGUOUS", "F_CONTIGUOUS", "FORTRAN", "ALIGNED", "WRITEABLE", "OWNDATA",
                   "ENSUREARRAY"])
"""The long forms of requirements, which their first letters identify."""


def _refuse_text(a: Array) -> None:
    """Refuse the text of a traced number, which an array would turn into numbers or plain text."""
    if isinstance(a, Text):
        a.__array__()
    elif isinstance(a, (list, tuple)):
        for part in a:
            _refuse_text(part)


@constructs(np.fromiter)
def fromiter(tracer: Any, fn: Any, iter: Any, dtype: Any, count: Any = -1, **other: Any) -> Any:
    if isinstance(iter, (np.ndarray, range, list)) and not (isinstance(iter, Traced) or _holds(iter)):
        return constant(tracer, fn, iter, dtype, count, **other)
    values = list(iter) if static(count) < 0 else list(itertools.islice(iter, static(count)))
    if not _holds(values):
        return constant(tracer, fn, values, dtype, count, **other)
    if len(values) < static(count):
        raise ValueError(f"iterator too short: Expected {static(count)} but iterator had only {len(values)} items.")
    if any(map(rank, values)):
        raise ValueError("setting an array element with a sequence.")
    return as_elements(values, dtype)


def _holds(x: Any) -> bool:
    return isinstance(x, list) and holds_traced(x)


@constructs(np.eye, np.identity, np.arange, np.tri, np.indices, np.copy, np.diag, np.linspace, np.logspace,
            np.geomspace)
def constant(tracer: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
    args = tuple(x if type(x) in ORDINARY else shown_array(x) for x in args)
    if args and isinstance(args[0], Traced) and fn in DISPATCH:
        return DISPATCH[fn](*args, **kwargs)
    if (len(args) != 1 or kwargs or type(args[0]) is not int) and any(isinstance(leaf, Traced)
                                                                      for leaf in leaves_of((args, kwargs))):
        if fn in DISPATCH:
            return DISPATCH[fn](*args, **kwargs)
        args = tuple(static(arg) if isinstance(arg, Traced) or (isinstance(arg, (list, tuple)) and holds_traced(arg))
                     else arg for arg in args)
    value = fn(*args, **kwargs)
    if type(value) is not np.ndarray or not numeric(value.dtype):
        return value
    if any(isinstance(arg, np.ndarray) and np.may_share_memory(arg, value) for arg in args):
        return value  # np.asarray of an array made outside returns that array
    op = tracer.constant(id(value), value, value)
    return tracer.proxy(op, value, tracer)


@constructs(np.zeros_like, np.ones_like, np.empty_like)
def filled_like(tracer: Any, fn: Any, a: Any, dtype: Any = None, order: str = "K", subok: bool = True,
                shape: Any = None, **other: Any) -> Any:
    given = {**({} if dtype is None else {"dtype": np.dtype(dtype)}), **({} if order == "K" else {"order": order})}
    value = as_array(a)
    if not isinstance(value, (Traced, np.ndarray)):
        value = np.asarray(value)
    found = numpy_dtype(value) if dtype is None else dtype
    if not numeric(found) and (fn is np.empty_like or not of_objects(tracer, found)):
        # an object array holds None
        return fn(plain(a), dtype, order, subok, shape, **other)
    if shape is not None or not isinstance(value, Traced):
        like = integers(shape_of(value) if shape is None else shape)
        return tracer.record(_FILLED[_SHAPED[fn]], (like,),
                             _described(numpy_dtype(value) if dtype is None else dtype, _order(value, order)))
    return tracer.record(_LIKE[fn], (value,), given)


def _order(like: Array, order: str) -> str:
    """Return the memory order of an array that is made like another."""
    return order if order in "CF" else "F" if layout_of(plain(like)) == "F" else "C"


_LIKE = {np.zeros_like: ops.zeros_like, np.ones_like: ops.ones_like, np.empty_like: ops.empty_like}
_SHAPED = {np.zeros_like: np.zeros, np.ones_like: np.ones, np.empty_like: np.empty}

for _fn in _LIKE:
    # reached by dispatch, also from library code
    register(_fn, lambda a, *args, _fn=_fn, **kwargs: filled_like(a._tracer, _fn, a, *args, **kwargs), constant=True)


@means(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None) -> Any:
    a, value = as_array(a), as_array(fill_value)
    shape = shape_of(a) if shape is None else integers(shape)
    dtype = numpy_dtype(a) if dtype is None else np.dtype(dtype)
    if not isinstance(value, Traced):
        return tracer_of((a,)).record(ops.full_like, (a,), {"fill_value": value, "shape": shape, "dtype": dtype})
    value = cast(value, dtype, checked=INTEGERS)
    # a broadcast array cannot be written to
    return ops.copy(spread(value, shape), **({"order": "F"} if _order(a, order) == "F" else {}))


@constructs(np.full_like)
def full_like_made(tracer: Any, fn: Any, a: Any, fill_value: Any, dtype: Any = None, order: str = "K",
                   subok: bool = True, shape: Any = None, **other: Any) -> Any:
    like = as_array(a)
    if isinstance(like, Traced):
        return full_like(like, fill_value, dtype, order, subok, shape)
    like = like if isinstance(like, np.ndarray) else np.asarray(like)
    return full(tracer, np.full, shape_of(like) if shape is None else shape, fill_value,
                like.dtype if dtype is None else dtype, _order(like, order))


@means(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    order = list(range(len(xi)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    grids = [ops.reshape(as_array(x), tuple(-1 if i == at else 1 for i in range(len(xi)))) for x, at in zip(xi, order)]
    full = tuple(grids) if sparse else broadcast_arrays(*grids)
    return tuple(ops.copy(x, order="C") for x in full) if copy else full


@means(np.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0, *, device: Any = None) -> Any:
    a, b, n = as_array(start), as_array(stop), operator.index(num)
    if n < 0:
        raise ValueError(f"Number of samples, {n}, must be non-negative.")
    kinds = [x.__class__(0) if dtype_of(x) is None else dtype_of(x) for x in (a, b)]
    common = np.result_type(*kinds, 0.0)
    # converted first: the difference of integers may overflow
    a, b = (ops.astype(x, dtype=common) if dtype_of(x) is not None and dtype_of(x).kind in "biu" else x for x in (a, b))
    delta, steps = b - a, n - 1 if endpoint else n
    k = np.arange(n, dtype=common).reshape((-1,) + (1,) * rank(delta))
    step = delta / steps if steps > 0 else np.nan
    y = k * (step if steps > 0 else delta) + a
    if endpoint and n > 1:
        y = ops.where(k == n - 1, b, y)
    y = moveaxis(y, 0, axis) if axis else y
    if dtype is not None and np.dtype(dtype) != numpy_dtype(y):
        y = ops.astype(np.floor(y) if np.issubdtype(dtype, np.integer) else y, dtype=np.dtype(dtype))
    return (y, step) if retstep else y


@means(np.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None,
           like: Any = None) -> Any:
    a, b, d = (as_array(x) for x in ((0, start, step) if stop is None else (start, stop, step)))
    d = 1 if d is None else d
    kind = np.result_type(np.intp, *[x.__class__(0) if dtype_of(x) is None else dtype_of(x) for x in (a, b, d)])
    if kind.kind in "iu":
        return constant(tracer_of((a, b, d)), np.arange, *map(static, (a, b, d)), dtype)
    if kind.kind == "c":
        raise refused("np.arange between complex numbers", "NumPy does not define the result",
                      "a + step * np.arange(n)")
    n = max(math.ceil((b - a) / d), 0)  # guarded
    kind = kind if dtype is None else np.dtype(dtype)
    second = a + d  # NumPy computes the step as the difference of the first two, in the result's precision
    if kind == np.dtype(float) and dtype_of(second) not in (None, kind):
        second = ops.astype(second, dtype=kind)
    y = a + np.arange(n, dtype=float) * (second - a)
    return y if kind == np.dtype(float) else ops.astype(y, dtype=kind)


@means(np.logspace)
def logspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None,
             axis: int = 0) -> Any:
    base = as_array(base)
    if rank(base):
        start, stop, base = broadcast_arrays(start, stop, base)
        base = ops.expand_dims(base, axis=static(axis))
    y = ops.pow(base, linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else ops.astype(y, dtype=np.dtype(dtype))
