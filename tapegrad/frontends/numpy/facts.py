"""NumPy's functions that return plain facts of an array (dtype, text, memory overlap), and its conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, as_elements, numpys
from tapegrad.frontends.numpy.reduce import kind_of
from tapegrad.frontends.numpy.shape import common_dtype, numpy_dtype, rank
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, DType
from tapegrad.rules.op import Slotted, Traced, tracer_of
from tapegrad.rules.registry import means, refused, register
from tapegrad.trace import views
from tapegrad.trace.eval_text import shown_text
from tapegrad.trace.viewed import of_class

# -- dtypes


@means(np.result_type, constant=True)
def result_type(*arrays_and_dtypes: Any) -> Any:
    return common_dtype(*arrays_and_dtypes)


@means(np.can_cast, constant=True)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(numpy_dtype(from_), to, casting)


@means(np.iscomplexobj, constant=True)
def iscomplexobj(x: Array) -> bool:
    return kind_of(as_array(x)) == "c"


@means(np.isrealobj, constant=True)
def isrealobj(x: Array) -> bool:
    return kind_of(as_array(x)) != "c"


# -- tests of each number


@means(np.iscomplex, constant=True)
def iscomplex(x: Array) -> Any:
    return numpys(ops.not_equal(ops.imag(as_array(x)), 0))


@means(np.isreal, constant=True)
def isreal(x: Array) -> Any:
    return ops.equal(ops.imag(as_array(x)), 0)


def _infinite(sign: Callable[[Any], Any]) -> Callable[..., Any]:
    def found(x: Array, out: Any = None) -> Any:
        x = as_array(x)
        if kind_of(x) == "c":
            raise TypeError("This operation is not supported for complex128 values because it would be ambiguous.")
        y = ops.logical_and(ops.isinf(x), sign(x))
        if out is not None:
            out[...] = y
            return out
        return y
    return found


register(np.isposinf, _infinite(lambda x: ops.logical_not(ops.signbit(x))), constant=True)
register(np.isneginf, _infinite(ops.signbit), constant=True)


@means(np.array_equiv, constant=True)
def array_equiv(a1: Array, a2: Array) -> bool:
    x, y = as_array(a1), as_array(a2)
    try:
        np.broadcast_shapes(shape_of(x), shape_of(y))
    except ValueError:
        return False
    return bool(ops.all(ops.equal(x, y)))


# -- text, which is not recorded


def _text(fn: Callable[..., str]) -> Callable[..., str]:
    def of(*args: Any, **kwargs: Any) -> str:
        traced = next(x for x in (*args, *kwargs.values()) if isinstance(x, Traced))
        return shown_text(traced, fn(*map(plain, args), **{key: plain(x) for key, x in kwargs.items()}))
    return of


for _fn in (np.array2string, np.array_repr, np.array_str, np.format_float_positional, np.format_float_scientific):
    register(_fn, _text(_fn), constant=True)

# -- an array's elements as Python numbers, and the array itself


@means(np.ndarray.item)
def item(a: Array, *args: Any) -> Any:
    index = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    if len(index) == rank(a):
        return ops.item(a[index] if index else a)
    # the op raises NumPy's errors
    return ops.item(ops.reshape(a, (-1,)), *index) if len(index) == 1 else ops.item(a, *index)


@means(np.ndarray.tolist)
def tolist(a: Array) -> Any:
    if not rank(a):
        return ops.item(a)
    return [tolist(part) for part in a] if rank(a) > 1 else [ops.item(a, i) for i in range(shape_of(a)[0])]


@means(np.ndarray.view)
def view(a: Any, dtype: Any = None, type: Any = None) -> Any:
    dtype, type = (getattr(cls, "_viewed_as", cls) for cls in (dtype, type))
    if (dtype is None and type is None) or dtype is np.ndarray or (type is np.ndarray and dtype is None):
        return a if isinstance(plain(a), np.generic) else a[...]
    of_array = isinstance(dtype, _class) and issubclass(dtype, np.ndarray)
    if dtype is not None and not of_array and np.dtype(dtype) == dtype_of(a):
        dtype = None
        if type is None:
            return a[...]
    cls = dtype if type is None and isinstance(dtype, _class) else type
    if isinstance(plain(a), np.generic) and isinstance(cls, _class) and issubclass(cls, np.ndarray):
        return a  # NumPy returns a scalar here
    if (isinstance(cls, _class) and issubclass(cls, np.ndarray) and isinstance(plain(a), np.ndarray)
        and (dtype is None or dtype is cls)):
        return of_class(a[...], cls, a)
    raise refused("x.view with a dtype", "it reinterprets the bytes of numbers as another dtype",
                  "x.astype(dtype), or x.real, x.imag, a + 1j * b")


_class = type


@means(np.ndarray.setflags, constant=True)
def setflags(a: Any, write: Any = None, align: Any = None, uic: Any = None) -> None:
    if write is None or write or align is not None or uic is not None or any(x is a for x in a._tracer.inputs):
        raise refused("x.setflags", "it changes a flag of the array in place", "make a new array: x.copy()")
    storage = views.place(a).storage
    storage.held = "an array that shares memory with this one was made read-only, by x.setflags(write=False)"
    storage.shared = True
    val = a._val.view()
    val.setflags(write=False)
    vars(Slotted)["_val"].__set__(a, val)


@means(np.ndarray.to_device)
def to_device(a: Array, device: Any, /, *, stream: Any = None) -> Any:
    np.empty(0).to_device(device, stream=stream)  # ValueError, in NumPy's words
    return a


@means(np.asarray_chkfinite)
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    x = as_array(a) if dtype is None else as_elements(a, dtype)
    if not ops.all(ops.isfinite(x)):
        raise ValueError("array must not contain infs or NaNs")
    return x if isinstance(plain(x), np.ndarray) else ops.array(x)


@means(np.astype)
def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Any:
    return ops.astype(x, dtype=np.dtype(dtype)) if copy or np.dtype(dtype) != dtype_of(x) else x


def _overlaps(fn: Callable[..., Any]) -> Any:
    """Return the implementation of a test for shared memory. Between arrays of the trace the answer is a property of
    the program, provided that its arguments share no memory and keep their layout: both are guarded.
    """
    def meaning(a: Array, b: Array, /, max_work: Any = None) -> bool:
        arrays = [x for x in (a, b) if isinstance(x, Traced)]
        if not arrays:  # the arguments are lists, which NumPy converts
            return False
        plainly = [x for x in (a, b) if not isinstance(x, Traced) and isinstance(x, np.ndarray)]
        given = [plain(op.val) for op in tracer_of(arrays).tape.inputs if isinstance(plain(op.val), np.ndarray)]
        inputs = [x for x in given if any(np.may_share_memory(x, plain(y)) for y in arrays)]
        if plainly and inputs:
            raise refused(f"np.{fn.__name__} of an argument and an array from outside the function",
                          "whether they share memory may differ from call to call", "pass both as arguments")
        arrays[0]._tracer.guard_apart()
        arrays[0]._tracer.guard_layout()
        return bool(fn(plain(a), plain(b), max_work))
    return meaning


register(np.may_share_memory, _overlaps(np.may_share_memory), constant=True)
register(np.shares_memory, _overlaps(np.shares_memory), constant=True)
