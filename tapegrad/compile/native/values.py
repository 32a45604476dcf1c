"""values: the forms that an operation's value takes in native code."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapegrad.tape.spec import Spec, spec_of

SMALL = 12  # maximal number of elements in registers: more are faster as vectors in memory
TABLE = 64  # the same if every axis is shorter than a vector
VECTOR = 8


class Element(NamedTuple):
    """A kind of numbers: its LLVM type in registers and in memory, its NumPy dtype, the suffix of LLVM intrinsics, and
    for complex numbers the kind of the two parts.
    """

    register: str
    stored: str
    dtype: Any
    suffix: str
    part: str = ""

    @property
    def itemsize(self) -> int:
        """The size in memory, in bytes."""
        return int(self.dtype.itemsize)


def _element(name: str, register: str, suffix: str, part: str = "") -> Element:
    return Element(register, "i8" if register == "i1" else register, np.dtype(name), suffix, part)


ELEMENTS = {"f": _element("float64", "double", "f64"), "s": _element("float32", "float", "f32"),
            "i": _element("int64", "i64", "i64"), "j": _element("int32", "i32", "i32"),
            "b": _element("bool", "i1", "i8"),
            "c": _element("complex128", "{ double, double }", "f64", "f"),
            "z": _element("complex64", "{ float, float }", "f32", "s")}
"""The number kinds of native code by letter; Python's int is "i" while it fits 64 bits."""
FLOATS, INTEGERS, COMPLEX = frozenset("fs"), frozenset("ij"), frozenset("cz")
INEXACT = FLOATS | COMPLEX
KINDS = {element.dtype: kind for kind, element in ELEMENTS.items()}
_KINDS: dict[Any, str] = {float: "f", int: "i", bool: "b", complex: "c",
                          **{dtype.type: kind for dtype, kind in KINDS.items()}}


class Unlowered(Exception):
    """A call has no native code: it stays in Python."""


class Number(NamedTuple):
    """A number in a register: its text in LLVM IR, and its kind."""

    ir: str
    kind: str


class Elements(NamedTuple):
    """A small array whose elements are in registers, in C order."""

    parts: tuple[str, ...]
    shape: tuple[int, ...]
    kind: str


class Array(NamedTuple):
    """An array in memory: the address of its first element and its strides in bytes; `owner` is the slot of the object
    that holds it, or a block of the function's memory, None if the caller keeps it alive.
    """

    data: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: Any
    kind: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Object(NamedTuple):
    """A pointer to a Python object."""

    ir: str
    owner: int | None


class Rows(NamedTuple):
    """The values that a loop has kept: one row a run, in one block of memory."""

    base: str
    step: int  # bytes from row to row
    offset: int  # of the value within a row
    shape: tuple[int, ...] | None  # None for a number
    kind: str
    owner: Any  # the block of the function's memory


class Results(NamedTuple):
    """The results of a loop or a batch."""

    parts: tuple[Any, ...]


Value = Number | Elements | Array | Object | Rows | Results


def number_kind(x: Spec) -> str | None:
    """Return the kind of a number in a register, None for another value."""
    return _KINDS.get(x.type)


def element_kind(x: Spec) -> str | None:
    """Return the kind of an array's elements, None if native code does not support them."""
    return KINDS.get(x.dtype) if x.is_array and x.dtype is not None and x.dtype.isnative else None


def kind_of(x: Spec) -> str | None:
    """Return the kind of a number, or of an array's elements; None for another value."""
    return number_kind(x) or element_kind(x)


def natural(x: Spec) -> tuple[int, ...]:
    """Return the strides of a new array with the recorded axis order of a value, without gaps."""
    assert x.dtype is not None
    given = x.strides
    if given is None or not x.size or x.ndim < 2:
        return dense(x.shape, x.itemsize)
    order, step, strides = sorted(range(x.ndim), key=lambda axis: (-abs(given[axis]), axis)), x.itemsize, [0] * x.ndim
    for axis in reversed(order):
        strides[axis] = step
        step *= x.shape[axis]
    return tuple(strides)


def is_small(x: Spec) -> bool:
    """Return whether an array's elements are held in registers."""
    return element_kind(x) is not None and is_few(x.shape)


def is_few(shape: tuple[int, ...]) -> bool:
    """Return whether an array of this shape is held in registers."""
    n = math.prod(shape)
    return n <= SMALL or (n <= TABLE and max(shape) < VECTOR)


def constant_kind(x: Any) -> str | None:
    """Return the kind of a plain number; None also for an integer beyond float64's exact range."""
    kind = number_kind(spec_of(x))
    return None if kind in ("i", "j") and abs(int(x)) > 1 << 53 else kind


def dense(shape: tuple[int, ...], itemsize: int = 1) -> tuple[int, ...]:
    """Return the strides of an array in C order, in elements unless their size is given."""
    return tuple([itemsize * math.prod(shape[axis + 1:]) for axis in range(len(shape))])


def itemsize(kind: str) -> int:
    """Return the size of a number in memory, in bytes."""
    return ELEMENTS[kind].itemsize
