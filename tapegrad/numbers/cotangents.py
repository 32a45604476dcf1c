"""cotangents: the special cotangents, the sum of two cotangents, and the projection of a cotangent to its input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.kinds import Array, Cotangent, DType, is_generator
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import as_kind, as_objects, is_complex_number, system
from tapegrad.numbers.tensor_array import TensorArray, unwrap, wrap
from tapegrad.numbers.tensor_dtypes import numpy_dtype, result_type
from tapegrad.numbers.tensors import ORDINARY, cast, device_of, is_spread, is_tensor, to_tensor
from tapegrad.numbers.view_path import Path, add_at


class Absorbing:
    """A neutral element of addition that is unchanged by scaling."""

    __slots__ = ()

    def __add__(self, other: Array) -> Any:
        return other

    def __radd__(self, other: Array) -> Any:
        return other

    def __sub__(self, other: Array) -> Any:
        return -other

    def __rsub__(self, other: Array) -> Any:
        return other

    def __mul__(self, other: Array) -> Any:
        return self

    __rmul__ = __truediv__ = __matmul__ = __rmatmul__ = __mul__
    __array_ufunc__ = None  # an ndarray on the left defers to the methods above

    def __neg__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ZeroTangent(Absorbing):
    """The cotangent of a value that the output does not depend on.

    >>> ZeroTangent() + 2.0
    2.0
    """

    __slots__ = ()


class NoTangent(Absorbing):
    """The cotangent of a value that has none: a string, a bool, an index.

    >>> 3.0 * NoTangent()
    NoTangent()
    """

    __slots__ = ()


ZERO = ZeroTangent()


class Scatter:
    """A sparse cotangent: `base`, or zeros like `x`, plus each piece at its index in the view that its path yields. It
    also represents the cotangent of a long tuple whose parts are read one by one.

    A loop that reads an n-element array element by element then costs O(n): adding two Scatters is O(1), and only
    `dense` touches the whole array. Scatters are immutable, so a replayed pullback starts afresh: the pieces form a
    chain, newest first; the newest link holds the base, the sum of the contributions that were whole arrays.
    """

    __slots__ = ("base", "build", "index", "path", "piece", "rest", "x")
    __array_ufunc__ = None

    def __init__(self, build: Callable[..., Any], x: Array, piece: Array, index: tuple[Any, ...], path: Path = (),
                 rest: Scatter | None = None, base: Any = ZERO) -> None:
        self.build, self.x, self.piece, self.index = build, x, piece, index
        self.path, self.rest, self.base = path, rest, base

    def chain(self) -> Iterator[Scatter]:
        """Yield the links, newest first."""
        link: Scatter | None = self
        while link is not None:
            yield link
            link = link.rest

    def dense(self) -> Any:
        """Return the cotangent as an array of x's shape and dtype, in one pass over it."""
        pieces, indices, paths = zip(*[(link.piece, link.index, link.path) for link in self.chain()])
        dx = self.build(self.x, pieces[::-1], indices[::-1], paths[::-1])
        dx = dx.tensor if type(dx) is TensorArray else dx
        return dx if type(self.base) is ZeroTangent else accumulate(self.base, dx)

    def __add__(self, other: Any) -> Any:
        if type(other) is Accumulator:
            return other + self
        if type(other) is not Scatter:
            return Scatter(self.build, self.x, self.piece, self.index, self.path, self.rest,
                           accumulate(self.base, other))
        base = self.base if type(other.base) is ZeroTangent else accumulate(self.base, other.base)
        if other.rest is None:
            return Scatter(other.build, other.x, other.piece, other.index, other.path, self, base)
        total = self
        for link in reversed(list(other.chain())):
            total = Scatter(link.build, link.x, link.piece, link.index, link.path, total, base)
        return total

    __radd__ = __add__

    def __repr__(self) -> str:
        return f"Scatter({sum(1 for _ in self.chain())} pieces)"


class Accumulator:
    """A dense cotangent in its own buffer, which is added to and written in place.

    It has one owner at a time: a pullback takes it, clears the overwritten elements, and passes it on. The reverse
    sweep of a loop that fills an array element by element then costs O(n), as the loop does.
    """

    __slots__ = ("array",)
    __array_ufunc__ = None

    def __init__(self, array: Any) -> None:
        self.array = array

    @classmethod
    def of(cls, dy: Any, y: Array) -> Accumulator:
        """Return `dy` if it is an accumulator, else a new one with a copy of it.

        The buffer has the memory layout of `y`, so that a path of views of `y` can be followed in it.
        """
        if type(dy) is cls:
            return dy
        if _on_torch((dy, y)):
            x = to_tensor(unwrap(dy), device_of((unwrap(dy), unwrap(y))))
            return cls(TensorArray(x.broadcast_to(shape_of(y)).clone()))
        array = np.empty_like(plain(y), np.asarray(dy).dtype)
        array[...] = dy
        return cls(array)

    def dense(self) -> Any:
        """Return the array; the accumulator must not be used afterwards."""
        return unwrap(self.array)

    def __add__(self, other: Any) -> Any:
        parts = [link.piece for link in other.chain()] + [other.base] if type(other) is Scatter else [dense(other)]
        places = [part for link in other.chain() for part in link.index] if type(other) is Scatter else []
        if any(hasattr(type(unwrap(part)), "_tracer") for part in (*parts, *places)):
            return unwrap(self.array) + unwrap(dense(other))  # an outer trace must record the sum
        parts = [part for part in parts if not isinstance(part, Absorbing)]
        if type(self.array) is TensorArray or _on_torch(parts):
            return self._add_to_tensor(other, parts)
        if parts and np.result_type(self.array, *parts) != self.array.dtype:
            return Accumulator(self.array + dense(other))
        if type(other) is Scatter:
            for link in other.chain():
                add_at(self.array, link.piece, link.index, link.path)
            other = other.base
        if not isinstance(other, Absorbing):
            self.array += dense(other)
        return self

    def _add_to_tensor(self, other: Any, parts: list[Any]) -> Accumulator:
        if type(self.array) is not TensorArray:
            self.array = TensorArray(to_tensor(self.array, device_of(map(unwrap, parts))).clone())
        x = self.array.tensor
        if parts and result_type(x, *map(unwrap, parts)) != x.dtype:
            return Accumulator(self.array + wrap(dense(other)))
        if type(other) is Scatter:
            for link in other.chain():
                add_at(TensorArray(x), link.piece, link.index, link.path)
            other = other.base
        if not isinstance(other, Absorbing):
            x += unwrap(dense(other))
        return self

    __radd__ = __add__

    def __repr__(self) -> str:
        return f"Accumulator({self.array!r})"


SPECIAL = (Absorbing, Scatter, Accumulator)  # cotangents that are not numbers and define their own addition


def _on_torch(xs: Iterable[Any]) -> bool:
    for x in xs:  # noqa: SIM110  # no generator, for speed: every accumulation calls this
        if type(x) not in ORDINARY and (type(x) is TensorArray or is_tensor(x)):
            return True
    return False


def copied(x: Array) -> Any:
    """Return a copy of a value as an array; of a tensor, as a TensorArray."""
    return TensorArray(unwrap(x).clone()) if _on_torch((x,)) else np.array(x)


def dense(dy: Any) -> Any:
    """Return a cotangent in the form that a rule expects."""
    return dy.dense() if type(dy) is Scatter or type(dy) is Accumulator else dy


def accumulate(a: Any, b: Any) -> Any:
    """Add two cotangents of one variable; those of a tuple add field by field."""
    if type(a) is tuple and type(b) is tuple:
        return tuple([y if type(x) is ZeroTangent else x if type(y) is ZeroTangent else accumulate(x, y)
                      for x, y in zip(a, b, strict=True)])  # most parts are zero: the results of a loop come one by one
    if type(a) is dict and type(b) is dict:
        return {key: accumulate(a.get(key, ZERO), b.get(key, ZERO)) for key in {**a, **b}}
    return a + b


_REALS = frozenset([float, int, np.float64])
_NUMPYS = frozenset([np.ndarray, np.float64, np.float32, np.complex128])
_AS_THEY_ARE = frozenset([ZeroTangent, NoTangent, Scatter, Accumulator, tuple, list, dict])


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of an array, tensor or proxy; a number's is ().

    Rules and composites read shapes by this function. If an outer trace records them, its tape is specialised to, and
    guards, the shapes of its inputs.
    """
    if type(x) in _NUMPYS:
        return x.shape  # type: ignore[no-any-return]
    return x._shape if hasattr(type(x), "_tracer") else getattr(x, "shape", ())  # type: ignore[no-any-return]


def dtype_of(x: Any) -> Any:
    """Return the dtype of an array or proxy; for a tensor NumPy's dtype of the same name; None for a plain number. A
    read is guarded as in `shape_of`.
    """
    if type(x) in _NUMPYS:
        return x.dtype
    dtype = x._dtype if hasattr(type(x), "_tracer") else None if system(x) is not None else getattr(x, "dtype", None)
    return dtype if dtype is None or hasattr(dtype, "kind") else numpy_dtype(dtype)


def kind_of(x: Any, default: str = "") -> str:
    """Return the letter of a value's dtype; `default` for a plain number and for other values."""
    dtype = dtype_of(x)
    return default if dtype is None else letter(dtype)


def has_dtype(x: Array, dtype: DType) -> bool:
    """Return whether the dtype is exactly `dtype`; None, a plain number's, is not: `None == np.dtype(float)` in NumPy.

    >>> has_dtype(1.0, np.dtype(float)), has_dtype(np.ones(2), np.dtype(float))
    (False, True)
    """
    found = dtype_of(x)
    return found is not None and bool(found == dtype)


def largest_fraction(x: Array) -> float:
    """Return the magnitude above which all floating-point numbers of this type are integers."""
    return 1.0 / float(np.finfo(x.dtype).eps) if isinstance(x, np.floating) else 2.0 ** 52


def layout_of(x: Any) -> Any:
    """Return the memory layout of an array: "C", "F", or its strides in elements; for a tensor "tensor", with its
    strides unless it is contiguous.
    """
    if is_tensor(x):
        return "tensor" if x.is_contiguous() else ("tensor", *x.stride())
    if not isinstance(x, np.ndarray) or type(x) is TensorArray:
        return "C"
    return ("C" if x.flags.c_contiguous else "F" if x.flags.f_contiguous
            else tuple(step // x.itemsize for step in x.strides))


def order_of(x: np.ndarray[Any, Any]) -> str:
    """Return the memory order of a copy of an array: "C", "F", or "K" for neither."""
    layout = layout_of(np.empty_like(x))
    return layout if isinstance(layout, str) else "K"


def project(dx: Any, x: Any) -> Any:
    """Project a cotangent to its input: undo broadcasting, keep a real input's real, narrow the dtype.

    This is the only place where broadcasting is undone, so that rules may ignore it (ChainRules calls the idea
    ProjectTo). `dx` broadcasts against `x`; the result has x's shape. An integer or bool input is differentiated as if
    it were real: its cotangent keeps dx's floating dtype.
    """
    if type(dx) is np.ndarray:
        if type(x) is np.ndarray and dx.dtype is x.dtype and dx.shape == x.shape:
            return dx
    elif (type(dx) in _REALS and type(x) in _REALS) or type(dx) in _AS_THEY_ARE:
        return dx
    if type(x) is TensorArray:
        dx = _beside(dx, x)
    shape, wide = shape_of(x), shape_of(dx)
    if shape != wide:
        dx = unbroadcast(dx, wide, shape)
    dtype, given = dtype_of(x), dtype_of(dx)
    if type(dx) not in ORDINARY or type(x) not in ORDINARY:
        dx = _of_system(dx, x, given)
    if dtype is None:  # a plain number
        return dx if _is_complex(x, None) or not _is_complex(dx, given) else dx.real
    if given is None or given == dtype or not hasattr(dtype, "kind"):
        if given is None and isinstance(dx, complex) and dtype.kind != "c":
            dx = dx.real
        return dx
    if given.kind == "c" and dtype.kind != "c":
        dx = dx.real
    if dtype.kind == "c":  # a real cotangent of a complex input keeps its dtype
        return dx.astype(dtype) if given.kind == "c" else dx
    if letter(dtype) == "f" and dtype_of(dx) != dtype and (isinstance(dtype, np.dtype) or type(dx) is TensorArray):
        dx = dx.astype(dtype)
    return dx


def _of_system(dx: Cotangent, x: Array, given: Any) -> Any:
    """Return a cotangent in its input's number system: exact numbers become floats for a float, not for an integer."""
    known = system(x)
    if known is not None:
        return dx if shape_of(dx) else as_kind(dx, type(plain(x)))
    if given is None and system(dx) is not None:
        kind = type(plain(x))
        if issubclass(kind, np.generic):
            kind = complex if issubclass(kind, np.complexfloating) else float
        return as_kind(dx, kind) if kind in (float, complex) else dx
    return dx


def _beside(dx: Any, x: TensorArray) -> Any:
    """Return a cotangent as a tensor on its input's device: NumPy values do not add to tensors by our promotion."""
    if type(dx) is TensorArray or hasattr(type(dx), "_tracer") or (type(dx) in PYTHON and not x.ndim):
        return dx
    return TensorArray(to_tensor(dx, x.tensor.device))


def unbroadcast(dx: Any, wide: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """Sum `dx` (of shape `wide`) over the axes along which `shape` was broadcast, or broadcast a smaller `dx`."""
    extra = len(wide) - len(shape)
    if extra > 0 and wide[extra:] == shape:
        return dx.sum(axis=tuple(range(extra)))
    if extra < 0 and wide:  # the value written had more axes, all extra ones of length 1
        wide, extra = (1,) * -extra + wide, 0
        dx = dx.reshape(wide)
    if extra < 0 or any(w != s and s != 1 for w, s in zip(wide[max(extra, 0):], shape)):
        dtype = dtype_of(dx)
        # a rule may return one number for a whole array
        return dx * np.ones(shape, dtype if dtype is None or isinstance(dtype, np.dtype) else bool)
    kept = tuple(i + extra for i, s in enumerate(shape) if s == 1 and wide[i + extra] != 1)
    if not kept:
        return dx.sum(axis=tuple(range(extra))) if extra else dx
    dx = dx.sum(axis=(*range(extra), *kept), keepdims=True)
    return dx.reshape(shape) if extra else dx


def _is_complex(dx: Any, dtype: Any) -> bool:
    return (isinstance(dx, complex)
            or is_complex_number(plain(dx))) if dtype is None else getattr(dtype, "kind", "") == "c"


def conform(dx: Any, x: Any) -> Any:
    """Return the gradient of an input: `dx` with the type, shape and dtype of `x`, in new memory.

    A Python float or int gets a float, an array an array (zeros if no gradient flows); an input without a gradient gets
    None.
    """
    if type(x) is float:
        if type(dx) in _REALS:
            return float(dx)
        if type(dx) is ZeroTangent:
            return 0.0
    dx = dense(dx)
    if dx is None or hasattr(type(dx), "_tracer"):
        return dx  # an outer trace's proxy: already projected
    x = plain(x)
    if isinstance(x, bool) or getattr(dtype_of(x), "kind", "") == "b" or is_generator(x):
        return None
    if is_tensor(x):
        return _conform_to_tensor(dx, x)
    if type(dx) in _AS_THEY_ARE and type(dx) is not ZeroTangent and type(dx) is not NoTangent:
        return dx
    if type(dx) is ZeroTangent or type(dx) is NoTangent:
        if isinstance(x, np.ndarray):
            return as_objects(np.zeros(x.shape, x.dtype if letter(x.dtype) in INEXACT else float), x)
        dx = 0.0
    if system(x) is not None:
        return as_kind(dx, type(plain(x)))
    if isinstance(x, np.ndarray):
        dtype = x.dtype if letter(x.dtype) in INEXACT else None
        return as_objects(np.array(dx if shape_of(dx) == x.shape else np.broadcast_to(dx, x.shape), dtype), x)
    if isinstance(x, np.generic):
        return x.dtype.type(dx) if letter(x.dtype) in "fc" else np.float64(dx)
    if type(x) is float or type(x) is int:
        return float(dx) if type(x) is float or system(dx) is None else dx
    if type(x) is complex:
        return complex(dx)
    return dx


def _conform_to_tensor(dx: Any, x: Any) -> Any:
    if is_spread(x):  # the gradient is sharded as the input is
        dx = cast(0.0 if type(dx) in (ZeroTangent, NoTangent) else dx, x).expand(x.shape)
        return dx.redistribute(x.device_mesh, x.placements).clone()
    dx = dx.full_tensor() if is_spread(dx) else dx
    narrow = x.dtype if x.is_floating_point() or x.is_complex() else None
    if type(dx) in _AS_THEY_ARE:
        return dx if type(dx) not in (ZeroTangent, NoTangent) else torch.zeros(x.shape, dtype=narrow or torch.float64,
                                                                               device=x.device)
    return to_tensor(dx, x.device, narrow).broadcast_to(x.shape).clone(memory_format=torch.contiguous_format)
