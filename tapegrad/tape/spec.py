"""spec: the type of a value apart from the value, and the placeholder for an absent value."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tapegrad.numbers.dtypes import is_extension
from tapegrad.numbers.formatting import PYTHON, plain, type_text
from tapegrad.numbers.tensors import is_tensor, is_tensor_type


class Spec:
    """The type of a value: a number's exact type, an array's dtype, shape and layout, the specs of a nest's parts; for
    any other value its class.

    `type` is a name (str) if the class itself is unknown; `strides` is None if the layout is unknown.

    >>> Spec(float), spec_of(np.ones((3, 4))), spec_of(np.ones((3, 4)).T).order, spec_of((1, 2.0)).parts
    (float, float64[3,4], 'F', (int, float))
    """

    __slots__ = ("_hash", "device", "dtype", "has_axes", "is_array", "is_contiguous", "is_memory", "is_numpy",
                 "is_python", "is_scalar", "itemsize", "kind", "nbytes", "ndim", "parts", "shape", "size", "strides",
                 "type")

    type: Any
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: str
    parts: tuple[Spec, ...]
    is_array: bool
    """The type is exactly np.ndarray, not a subclass."""
    has_axes: bool
    """An array with at least one axis."""
    ndim: int
    size: int
    is_python: bool
    """A Python number."""
    is_scalar: bool
    """A NumPy scalar."""
    is_memory: bool
    """An np.ndarray or a subclass."""
    is_numpy: bool
    """A NumPy scalar or array."""
    is_contiguous: bool
    """Row-major without gaps; axes of length 1 are ignored."""
    itemsize: int
    nbytes: int
    kind: str
    """NumPy's letter for the kind of the dtype; "-" if there is no dtype."""

    def __init__(self, type: Any, dtype: Any = None, shape: tuple[int, ...] = (),
                 strides: tuple[int, ...] | None = None, device: str = "cpu", parts: tuple[Spec, ...] = ()) -> None:
        def note(**known: Any) -> None:
            for name, value in known.items():
                object.__setattr__(self, name, value)
        note(type=type, dtype=dtype, shape=shape, strides=strides, device=device, parts=parts)
        kind, size, itemsize = (type if inspect.isclass(type) else object, math.prod(shape),
                                getattr(dtype, "itemsize", 0))
        note(ndim=len(shape), size=size, itemsize=itemsize, nbytes=size * itemsize,
             kind="V" if is_extension(dtype) else getattr(dtype, "kind", "-"),
             is_array=kind is np.ndarray, has_axes=kind is np.ndarray and shape != (), is_python=kind in PYTHON,
             is_scalar=issubclass(kind, np.generic), is_memory=issubclass(kind, np.ndarray),
             is_numpy=issubclass(kind, (np.ndarray, np.generic)), _hash=hash(self._key()))
        note(is_contiguous=self._is_dense(range(self.ndim - 1, -1, -1)))

    def _key(self) -> tuple[Any, ...]:
        return self.type, self.dtype, self.shape, self.strides, self.device, self.parts

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Spec is immutable: its {name} cannot be set")

    def __reduce__(self) -> Any:
        return Spec, self._key()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Spec) and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash  # type: ignore[no-any-return, attr-defined]

    @property
    def system(self) -> str:
        """The number system: "python", "numpy", "torch" or "other"."""
        if isinstance(self.type, str):
            return "torch" if self.type.startswith("torch.") else "other"
        return ("python" if self.is_python else "numpy" if self.is_numpy else "torch" if is_tensor_type(self.type)
                else "other")

    @property
    def is_complex(self) -> bool:
        """True for complex numbers."""
        if self.dtype is None:
            return isinstance(self.type, type) and issubclass(self.type, complex)
        return self.kind == "c" or getattr(self.dtype, "is_complex", False)  # torch's dtypes have no kind

    @property
    def layout(self) -> Any:
        """The memory layout of an array: "C", "F", or its strides in elements; for a tensor "tensor", with its strides
        unless it is contiguous; None if unknown.
        """
        if self.strides is None:
            return None if self.is_memory else "C"
        steps = tuple(step // self.itemsize for step in self.strides)
        if self.system == "torch":
            return "tensor" if self.is_contiguous else ("tensor", *steps)
        if not self.is_memory or self.is_contiguous:
            return "C"
        return "F" if self._is_dense(range(self.ndim)) else steps

    @property
    def order(self) -> str:
        """The memory order of a copy of the array: "C", "F", or "K" for neither."""
        if self.layout in ("C", "F", None):
            return self.layout or "K"
        axes = [axis for axis, n in enumerate(self.shape) if n != 1]
        outwards = sorted(axes, key=lambda axis: -abs(self.strides[axis]))  # type: ignore[index]
        return "C" if outwards == axes else "F" if outwards == axes[::-1] else "K"

    def _is_dense(self, axes: range) -> bool:
        step = self.itemsize
        for axis in axes if self.size else ():
            n = self.shape[axis]
            if n != 1:
                if self.strides is None or self.strides[axis] != step:
                    return False
                step *= n
        return True

    @property
    def is_pythonic(self) -> bool:
        """True for a Python number or a tuple of Python numbers."""
        return self.is_python or (self.type is tuple and self.parts != ()
                                  and all(part.is_python for part in self.parts))

    @property
    def is_complete(self) -> bool:
        """True if class and memory layout are known, which passes and code generators require."""
        return not isinstance(self.type, str) and (not self.is_memory or self.strides is not None)

    @property
    def has_sample(self) -> bool:
        """True for the spec of a number, or of an array."""
        return self.is_array or self.is_python or (self.is_scalar and self.kind in "biufc")

    def has_dtype(self, dtype: Any) -> bool:
        """Return whether the dtype is exactly `dtype`; None is not: `None == np.dtype(float)` in NumPy."""
        return self.dtype is not None and bool(self.dtype == dtype)

    def sample(self) -> Any:
        """Return a read-only array of zeros with this layout (its memory is committed on reading); for a number, 1."""
        if self.is_python or self.is_scalar:
            return self.type(1)
        found: Any
        if self.strides is None or self.dtype.hasobject:
            found = np.zeros(self.shape, self.dtype, "F" if self.layout == "F" else "C")
        else:
            below = sum(step * (n - 1) for n, step in zip(self.shape, self.strides) if step < 0 and n)
            above = sum(step * (n - 1) for n, step in zip(self.shape, self.strides) if step > 0 and n)
            found = np.ndarray(self.shape, self.dtype, np.zeros(above - below + self.itemsize, np.uint8), -below,
                               self.strides)
        found.flags.writeable = False
        return found

    def __str__(self) -> str:
        if isinstance(self.type, str):
            return self.type
        return type_text(self.type, self.dtype, self.shape, self.device)

    __repr__ = __str__


def same_type(a: Spec, b: Spec) -> bool:
    """True if two values are known to have the same type, shape and dtype, whatever their memory layouts."""
    if a is b or (a.type is b.type and a.shape == b.shape and (a.dtype is b.dtype or a.dtype == b.dtype)):
        return not isinstance(a.type, str)
    return False


def parsed(text: str, length: int = 0) -> Spec:
    """Return the spec that a type's name implies: `float`, `float64[3,4]`; a tuple has `length` parts of unknown type.

    >>> parsed("float64[3,4]").shape, parsed("tuple", 2).parts
    ((3, 4), (, ))
    """
    if text in _NAMES:
        return Spec(_NAMES[text], parts=(NOTHING,) * length if text in ("tuple", "list") else ())
    found = re.match(_ARRAY, text)
    try:
        if found is not None:
            return Spec(np.ndarray, np.dtype(found[1]), tuple(int(n) for n in found[2].split(",") if n))
        return Spec(np.dtype(text).type, np.dtype(text))
    except TypeError:
        return Spec(text, parts=(NOTHING,) * length)


_NAMES = {kind.__name__: kind for kind in (*PYTHON, tuple, list, dict, str, type(None))}
_ARRAY = r"(\w+)\[([\d,]*)\]$"


# -- specs of values

_arrays: dict[Any, Spec] = {}  # cache of array specs: few different ones occur
_MANY = 1 << 14
_LONG = 16  # parts of a nest from which it pays to see that they are alike
FIXED: dict[Any, Spec] = {kind: Spec(kind) for kind in (*PYTHON, str, bytes, type(None), slice, type(Ellipsis))}
"""Specs that depend on the value's exact type alone."""

for _name in ("float64", "float32", "float16", "longdouble", "complex128", "complex64", "clongdouble", "bool_",
              "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    _kind = getattr(np, _name)
    FIXED[_kind] = Spec(_kind, np.dtype(_kind), (), ())


def spec_of(x: Any) -> Spec:
    """Return the spec of a value, or of an operation's value."""
    kind = type(x)
    if kind in OPERATIONS:
        x = x.val
        kind = type(x)
    if kind is np.ndarray:
        key = (x.dtype, x.shape, x.strides)
        return _arrays.get(key) or _array(key)
    known = FIXED.get(kind)
    return OF.get(kind, _other)(x) if known is None else known


def _array(key: tuple[Any, ...]) -> Spec:
    if len(_arrays) >= _MANY:
        _arrays.clear()
    made = _arrays[key] = Spec(np.ndarray, *key)
    return made


def _other(x: Any) -> Spec:
    bare, kind = plain(x), type(x)
    if isinstance(x, (tuple, list)):
        return _nest(x)
    if hasattr(type(bare), "_type_name"):
        return Spec(bare._type_name)
    shape, dtype = getattr(bare, "shape", None), getattr(bare, "dtype", None)
    if dtype is None or shape is None or isinstance(bare, type):
        return Spec(kind)
    strides = getattr(bare, "strides", None)
    if is_tensor(bare) and str(bare.layout) == "torch.strided":
        strides = tuple([step * dtype.itemsize for step in bare.stride()])
    return Spec(kind, dtype, tuple(shape), strides, str(getattr(bare, "device", "cpu")))


def _nest(x: Any) -> Spec:
    kind: Any = type(x)
    same = len(x) >= _LONG and len(set(map(id, x))) == 1  # what a loop collects has one sample
    parts = (spec_of(x[0]),) if same else tuple(map(spec_of, x))
    if len(x) >= _LONG and len(set(map(id, parts))) == 1:
        return repeated(kind, parts[0], len(x))
    return Spec(kind, parts=parts)


@lru_cache(64)
def repeated(kind: Any, part: Spec, count: int) -> Spec:
    """Return the spec of a nest of parts of one spec. To hash a long one takes long, and loops collect such."""
    return Spec(kind, parts=(part,) * count)


OPERATIONS: set[type] = set()
"""The classes of operations, whose spec is that of their value."""
OF: dict[type, Callable[[Any], Spec]] = {tuple: _nest, list: _nest}
"""Functions that return the spec of a value, by the value's type."""


# -- absent values

NOTHING = Spec("")
"""The spec of a value about which nothing is known."""


class Absent:
    """Placeholder for an absent value with the shape and dtype of its spec; reading its content raises TypeError."""

    __slots__ = ("spec",)
    __array_ufunc__ = None

    def __init__(self, spec: Spec = NOTHING) -> None:
        self.spec = spec

    @property
    def _type_name(self) -> str:
        return str(self.spec)

    def __getattr__(self, name: str) -> Any:
        if name not in _ANSWERS or self.spec.dtype is None:
            raise AttributeError(f"an absent value, {self.spec or 'of unknown type'}, has no {name!r}")
        return getattr(self.spec, name)

    def __len__(self) -> int:
        return self.spec.shape[0] if self.spec.shape else len(self.spec.parts)

    def _read(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"a {self.spec or 'value'} was freed, but is still read: this is a bug in tapegrad")

    # methods that Python would otherwise supply or replace by a fallback
    __array__ = __bool__ = __eq__ = __ne__ = __iter__ = __getitem__ = _read
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return absent, (self.spec,)

    def __repr__(self) -> str:
        return "?"


_ANSWERS = frozenset(["dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides"])
UNKNOWN = Absent(NOTHING)
"""Placeholder for a value about which nothing is known."""


def absent(spec: Spec) -> Absent:
    """Return the placeholder for an absent value, one shared object per spec."""
    return UNKNOWN if spec == NOTHING else _absent(spec)


def part_of(val: Any, number: int) -> Any:
    """Return part `number` of a nest; for an absent nest, an absent part."""
    if type(val) is not Absent:
        return val[number]
    return absent(val.spec.parts[number]) if number < len(val.spec.parts) else UNKNOWN


_absent = lru_cache(_MANY)(Absent)
OF[Absent] = lambda x: x.spec  # type: ignore[attr-defined]
