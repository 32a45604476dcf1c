"""NumPy's elementwise functions that differ from an op, and the ufunc protocol."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, cast, keywords, numpys, static
from tapegrad.frontends.numpy.shape import numpy_dtype
from tapegrad.numbers.cotangents import dtype_of, has_dtype, shape_of
from tapegrad.numbers.dtypes import is_extension
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, DType
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH, means, refused, register
from tapegrad.trace import views
from tapegrad.trace.concretize import rounded_to

# The NumPy functions that compute `ufunc.reduce` and `ufunc.accumulate`.
_REDUCE: dict[Any, Callable[..., Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_and: np.all,
    np.logical_or: np.any,
    np.logaddexp: np.logaddexp.reduce, np.fmax: np.fmax.reduce, np.fmin: np.fmin.reduce}
_ACCUMULATE: dict[Any, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod,
                                            **{ufunc: ufunc.accumulate for ufunc in (
                                                np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp)}}


@means(np.ufunc)
def ufunc_method(ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Apply a ufunc's method, or the ufunc with keyword arguments; return NotImplemented for an unknown one."""
    if method == "at":
        return DISPATCH["at"](ufunc, *inputs)
    given = inputs, {**kwargs}
    out = kwargs.pop("out", None)
    if method == "__call__" and kwargs.get("where", True) is not True:
        return _masked(ufunc, inputs, out, **kwargs)
    if out is not None:
        result = ufunc_method(ufunc, method, *inputs, **kwargs)
        return result if result is NotImplemented else DISPATCH["out"](out, result, ufunc if method == "__call__"
                                                                      else getattr(ufunc, method), given)
    if method == "__call__":
        found = _call(ufunc, inputs, **kwargs)
        return found if found is not NotImplemented or kwargs else DISPATCH["frompyfunc"](ufunc, *inputs)
    if method == "reduceat" and ufunc in _REDUCE and _REDUCE[ufunc] in DISPATCH:
        return _reduceat(ufunc, *inputs, **kwargs)
    if method == "reduce" and ufunc in _REDUCE and _REDUCE[ufunc] in DISPATCH:
        kwargs.setdefault("axis", 0)
        return DISPATCH[_REDUCE[ufunc]](*inputs, **kwargs)
    if method == "accumulate" and ufunc in _ACCUMULATE and _ACCUMULATE[ufunc] in DISPATCH:
        kwargs.setdefault("axis", 0)
        if not shape_of(plain(as_array(inputs[0]))):
            ufunc.accumulate(np.empty(()))  # TypeError, in NumPy's words
        return DISPATCH[_ACCUMULATE[ufunc]](*inputs, **kwargs)
    if method == "outer" and ufunc in DISPATCH and not kwargs:
        a, b = map(as_array, inputs)
        return DISPATCH[ufunc](ops.reshape(a, shape_of(a) + (1,) * len(shape_of(b))), b)
    return NotImplemented


def _reduceat(ufunc: Any, a: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Reduce from each index to the next (one element if that is not larger), and from the last to the end."""
    x, axis = as_array(a), static(axis)
    starts = np.asarray(static(indices if isinstance(indices, Traced) else np.asarray(as_array(indices)).tolist()), int)
    ufunc.reduceat(np.empty(shape_of(x)), starts, axis)  # IndexError, in NumPy's words
    x = np.moveaxis(x, axis, 0)
    ends = [*starts[1:].tolist(), shape_of(x)[0]]
    how = {"axis": 0} if dtype is None else {"axis": 0, "dtype": dtype}
    parts = [DISPATCH[_REDUCE[ufunc]](x[start:max(end, start + 1)], **how) for start, end in zip(starts.tolist(), ends)]
    return np.moveaxis(ops.stack(*parts, axis=0), 0, axis)


def _masked(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Array | None, where: Array | bool,
            casting: Any = "same_kind", **options: Any) -> Any:
    """Apply a ufunc inside a mask. Outside it is not computed, so that 0 / 0 does no harm there, and `out` keeps its
    numbers.
    """
    if out is None or len(out) > 1 or out[0] is None:
        raise refused(f"np.{ufunc.__name__} with where=, and without out=,",
                      "elements where `where=` is False are undefined",
                      "out=np.zeros_like(x)")
    shape = shape_of(out[0])
    mask = ops.broadcast_to(as_array(where), shape)
    xs = list(map(as_array, inputs))
    dtypes = [dtype_of(x) for x in xs if dtype_of(x) is not None]
    # Python numbers become arrays too, and need the dtype that promotion gives them beside the arrays
    xs = [ops.astype(x, dtype=np.result_type(*dtypes, type(plain(x))(0))) if dtype_of(x) is None else x for x in xs]
    y = _call(ufunc, tuple(ops.read(ops.broadcast_to(x, shape), (mask,)) for x in xs), **options)
    if y is NotImplemented:
        return y
    np.empty(0, dtype_of(y)).astype(dtype_of(out[0]), casting=casting)  # TypeError, in NumPy's words
    DISPATCH[operator.setitem](out[0], mask, y)
    return out[0]


def _call(ufunc: Any, inputs: tuple[Any, ...], dtype: Any = None, casting: str = "same_kind", order: str = "K",
          subok: bool = True, where: Array | bool = True, signature: Any = None, **other: Any) -> Any:
    meaning = DISPATCH.get(ufunc)
    types = signature.partition("->")[0] if type(signature) is str else ""
    if ufunc is np.vecdot and "axis" in other:
        axis, meaning = other.pop("axis"), DISPATCH[np.linalg.vecdot]
        meaning = functools.partial(meaning, axis=axis)
    if meaning is None or other or (signature is not None and len(types) != ufunc.nin):
        return NotImplemented
    inputs = tuple(map(as_array, inputs))
    if types:  # a loop's signature: "dd->d"
        given = [*map(np.dtype, map(numpy_dtype, inputs)), *[None] * ufunc.nout]
        ufunc.resolve_dtypes(tuple(given), signature=signature, casting=casting)  # TypeError, in NumPy's words
        inputs = tuple(cast(x, kind) for x, kind in zip(inputs, types))
    if dtype is not None or casting != "same_kind":
        ones = [np.ones(0, numpy_dtype(x)) if dtype_of(x) is not None else type(plain(x))(1) for x in inputs]
        ufunc(*ones, dtype=dtype, casting=casting)  # TypeError, in NumPy's words
    if dtype is not None:
        inputs = tuple(cast(x, dtype) for x in inputs)
    return meaning(*inputs)


@means(np.divmod)
def divmod(x1: Array, x2: Array) -> Any:
    x1, x2 = numpys(x1), numpys(x2)  # NumPy scalars divide by zero without an error
    return numpys(ops.floor_divide(x1, x2)), numpys(ops.remainder(x1, x2))


@means(np.clip, np.ndarray.clip, np._core.umath.clip)  # type: ignore[attr-defined]
def clip(a: Array, a_min: Any = None, a_max: Any = None, out: Array | None = None, *, min: Any = None,
         max: Any = None) -> Any:
    low, high = as_array(min if a_min is None else a_min), as_array(max if a_max is None else a_max)
    y = as_array(a)
    y = ops.scalar(y) if isinstance(y, (int, float, complex)) else y  # np.clip converts a number to an array
    if numpy_dtype(y).kind in "iu" and dtype_of(y) is not None:
        low, high = (_bound(x, numpy_dtype(y), is_high) for x, is_high in ((low, False), (high, True)))
    if low is None and high is None:
        return numpys(ops.positive(y))  # a copy
    if low is not None and high is not None and dtype_of(low) is None and (dtype_of(y) is not None
                                                                           or y.__class__ is bool):
        dtype = np.result_type(*[x.__class__(0) if dtype_of(x) is None else dtype_of(x) for x in (y, low, high)])
        # promoted from all three at once: a Python int and bools alone would give int64
        y = y if has_dtype(y, dtype) else ops.astype(y, dtype=dtype)
    if is_extension(numpy_dtype(y)):  # ml_dtypes have promotion rules of their own
        y = ops.astype(y, dtype=np.clip(np.ones((), numpy_dtype(y)), plain(low), plain(high)).dtype)
    if low is None or high is None:
        return numpys(ops.maximum(y, low) if high is None else ops.minimum(y, high))
    # between two numbers a zero keeps its sign: maximum and minimum return the second of equal operands
    y = ops.maximum(low, y) if _may_be_zero(low) else ops.maximum(y, low)
    return numpys(ops.minimum(high, y) if _may_be_zero(high) else ops.minimum(y, high))


def _may_be_zero(bound: Any) -> bool:
    return shape_of(bound) == () and (isinstance(bound, Traced) or bound == 0)


def _bound(x: Any, dtype: Any, is_high: bool) -> Any:
    """Return a bound for integers; None, guarded, for a Python integer that excludes no value of the dtype."""
    if type(plain(x)) is not int:
        return x
    return None if (x >= np.iinfo(dtype).max if is_high else x <= np.iinfo(dtype).min) else x


@means(np.fabs)
def fabs(x: Array, /) -> Any:
    y = as_array(x)
    if numpy_dtype(y).kind != "f":  # np.fabs rejects complex numbers
        y = ops.astype(y, dtype=np.fabs(np.zeros((), numpy_dtype(y))).dtype)
    return ops.abs(y) if dtype_of(y) is not None else ops.abs(ops.scalar(y))


@means(np.round, np.around, np.ndarray.round, constant=True)
def round(a: Any, decimals: int = 0, out: Array | None = None) -> Any:
    x, decimals = as_array(a), static(decimals)
    if dtype_of(x) is not None and numpy_dtype(x).kind in "iu":  # NumPy 2.2 returns these arrays themselves
        ones = np.ones((1,) * len(shape_of(x)), numpy_dtype(x))
        if np.round(ones, decimals) is ones:
            return x
    return ops.round(x, decimals=rounded_to(x, decimals))


@means(np.where)
def where(condition: Any, /, *given: Any) -> Any:
    if not given:
        return DISPATCH[np.nonzero](condition)
    if len(given) != 2:
        np.where(True, *[0] * len(given))  # ValueError or TypeError, in NumPy's words
    return ops.where(as_array(condition), *map(as_array, given))


@means(np.ndarray.astype)
def astype(a: Array, dtype: DType, order: str = "K", casting: str = "unsafe", subok: bool = True,
           copy: bool = True) -> Any:
    if not copy and np.dtype(dtype) == dtype_of(a):
        return views.arranged(a, order)
    y = ops.astype(a, dtype=np.dtype(dtype))
    if isinstance(plain(a), np.ndarray) and not isinstance(plain(y), np.ndarray):
        return ops.array(y)  # a 0-dimensional array, which can be written to
    return views.arranged(y, order, copied=True)


@means(np.copy)
def copy(a: Array, order: str = "K", subok: bool = False) -> Any:
    x = as_array(a)
    return ops.copy(x, **({} if len(shape_of(plain(x))) < 2 or views.lies(x, order) else {"order": order}))


@means(np.ndarray.copy)
def copy_method(a: Array, order: str = "C") -> Any:
    return a if isinstance(plain(a), np.generic) else copy(a, order)


_HOLDS: dict[str, Any] = {"nan": ops.isnan, "posinf": lambda x: ops.equal(x, np.inf),
                          "neginf": lambda x: ops.equal(x, -np.inf)}


@means(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    traced = {name: to for name, to in {"nan": nan, "posinf": posinf, "neginf": neginf}.items()
              if isinstance(to, Traced)}
    y = as_array(x)
    if traced and ops.is_complex(y):
        raise refused("np.nan_to_num of complex numbers with traced ones",
                      "real and imaginary parts are replaced separately",
                      "apply it to the real and imaginary parts separately")
    if not copy and not isinstance(plain(y), np.ndarray):
        np.nan_to_num(plain(y), copy=False)  # ValueError, in NumPy's words
    for to in traced.values():
        np.copyto(np.empty(shape_of(y), numpy_dtype(y)), plain(to))  # ValueError and TypeError, in NumPy's words
    masks = {name: _HOLDS[name](y) for name in traced}
    settings = {name: to for name, to in {"posinf": posinf, "neginf": neginf}.items() if name not in traced}
    y = ops.nan_to_num(y, **({} if "nan" in traced or (np.ndim(nan) == 0 and nan == 0) else {"nan": nan}),
                       **keywords(**settings))
    for name, to in traced.items():
        y = ops.where(masks[name], ops.astype(to, dtype=dtype_of(y)) if dtype_of(y) is not None else to, y)
    if copy:
        return y
    y = DISPATCH["out"](x, y, None, None)
    return y if shape_of(y) else ops.read(y, ())  # a scalar


register(np.real, lambda val: ops.real(as_array(val)))
register(np.imag, lambda val: ops.imag(as_array(val)))


@means(np.ndarray.conj, np.ndarray.conjugate)
def conj(x: Any, out: Any = None) -> Any:
    if out is not None:
        return np.conjugate(x, out)
    # NumPy returns a real array itself
    return x if not ops.is_complex(x) and isinstance(plain(x), np.ndarray) else ops.conjugate(x)


@means(float.conjugate, int.conjugate)
def conjugate_of_real(x: Any) -> Any:
    """Return a real number itself; guard that it is real, because a complex number has another conjugate."""
    if isinstance(x, Traced):
        x._fact("kind", "real")  # type: ignore[attr-defined]
    return ops.positive(x)


@means(float.is_integer, constant=True)
def is_integer(x: Any) -> bool:
    return bool(ops.equal(ops.remainder(x, 1.0), 0.0))  # guarded


means(complex.conjugate)(ops.conjugate)
means(np.ndarray.real, float.real, complex.real, int.real)(ops.real)
means(np.ndarray.imag, float.imag, complex.imag, int.imag)(ops.imag)
