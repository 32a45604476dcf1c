"""values: what stands in native code for the value of an operation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapegrad.tape.spec import Spec, spec_of

SMALL = 12  # elements of an array that lie in registers, at most: more of them are faster as vectors in memory
TABLE = 64  # the same where no axis is as long as a vector
VECTOR = 8


class Element(NamedTuple):
    """A kind of numbers: LLVM's type in a register and in memory, NumPy's dtype, how LLVM's names of functions of it
    end, and the kind of the two parts of a complex number.
    """

    register: str
    stored: str
    dtype: Any
    suffix: str
    part: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes in memory."""
        return int(self.dtype.itemsize)


def _element(name: str, register: str, suffix: str, part: str = "") -> Element:
    return Element(register, "i8" if register == "i1" else register, np.dtype(name), suffix, part)


ELEMENTS = {"f": _element("float64", "double", "f64"), "s": _element("float32", "float", "f32"),
            "i": _element("int64", "i64", "i64"), "j": _element("int32", "i32", "i32"),
            "b": _element("bool", "i1", "i8"),
            "c": _element("complex128", "{ double, double }", "f64", "f"),
            "z": _element("complex64", "{ float, float }", "f32", "s")}
"""The numbers that native code computes with, by the letters of their kinds; Python's int while it fits 64 bits."""
FLOATS, INTEGERS, COMPLEX = frozenset("fs"), frozenset("ij"), frozenset("cz")
INEXACT = FLOATS | COMPLEX
KINDS = {element.dtype: kind for kind, element in ELEMENTS.items()}
_KINDS: dict[Any, str] = {float: "f", int: "i", bool: "b", complex: "c",
                          **{dtype.type: kind for dtype, kind in KINDS.items()}}


class Unlowered(Exception):
    """There is no native code for a call: it stays in Python."""


class Number(NamedTuple):
    """A number in a register: its text in LLVM IR, and its kind."""

    ir: str
    kind: str


class Elements(NamedTuple):
    """A small array whose elements are in registers, row by row."""

    parts: tuple[str, ...]
    shape: tuple[int, ...]
    kind: str


class Array(NamedTuple):
    """An array in memory: the address of its first element and its strides in bytes; `owner` is the slot of the object
    that it lies in, or a block of the function's own memory, None where the caller keeps it.
    """

    data: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: Any
    kind: str

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


class Object(NamedTuple):
    """A pointer to an object of Python's."""

    ir: str
    owner: int | None


class Rows(NamedTuple):
    """What a loop has kept of each run: one row a run, in one block of memory."""

    base: str
    step: int  # bytes from row to row
    offset: int  # of this value in a row
    shape: tuple[int, ...] | None  # None for a number
    kind: str
    owner: Any  # the block of the function's own memory


class Results(NamedTuple):
    """What a loop returns."""

    parts: tuple[Any, ...]


Value = Number | Elements | Array | Object | Rows | Results


def number_kind(x: Spec) -> str | None:
    """Return the kind of a number in a register, None for what is none."""
    return _KINDS.get(x.type)


def element_kind(x: Spec) -> str | None:
    """Return the kind of the elements of an array, None for one that native code does not compute with."""
    return KINDS.get(x.dtype) if x.is_array and x.dtype is not None and x.dtype.isnative else None


def kind_of(x: Spec) -> str | None:
    """Return the kind of a number, or of an array's elements; None for another value."""
    return number_kind(x) or element_kind(x)


def natural(x: Spec) -> tuple[int, ...]:
    """Return the strides of a new array that lies as an operation's value was recorded to lie, if that had no gaps."""
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
    """True for an array whose elements are held in registers."""
    return element_kind(x) is not None and is_few(x.shape)


def is_few(shape: tuple[int, ...]) -> bool:
    """True for so many numbers as are held in registers."""
    n = math.prod(shape)
    return n <= SMALL or (n <= TABLE and max(shape) < VECTOR)


def constant_kind(x: Any) -> str | None:
    """Return the kind of a plain number; None for an integer that float64 cannot tell from its neighbours, too."""
    kind = number_kind(spec_of(x))
    return None if kind in ("i", "j") and abs(int(x)) > 1 << 53 else kind


def dense(shape: tuple[int, ...], itemsize: int = 1) -> tuple[int, ...]:
    """Return the strides of an array that lies row by row, in elements unless their size is given."""
    return tuple([itemsize * math.prod(shape[axis + 1:]) for axis in range(len(shape))])


def itemsize(kind: str) -> int:
    """Return how many bytes a number takes in memory."""
    return ELEMENTS[kind].itemsize
