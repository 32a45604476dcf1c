"""values: what stands in native code for the value of an operation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapegrad.tape.spec import Spec, spec_of

SMALL = 64  # elements of an array that lie in registers, at most
LLVM = {"f": "double", "s": "float", "i": "i64", "b": "i1"}
"""LLVM's types of the kinds of numbers: float64, float32, int64 or Python's int while it fits 64 bits, bool."""
STORED = {**LLVM, "b": "i8"}
"""LLVM's types of these numbers in memory."""
DTYPES: dict[str, Any] = {"f": np.dtype(np.float64), "s": np.dtype(np.float32), "i": np.dtype(np.int64),
                          "b": np.dtype(np.bool_)}
KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
_KINDS: dict[Any, str] = {float: "f", np.float64: "f", int: "i", bool: "b", np.bool_: "b"}


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
    kind: str = "f"

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
    """Return the kind of the elements of an array that native code computes with, None for another."""
    if not x.is_array or x.dtype not in (np.float64, np.bool_):
        return None
    return "f" if x.dtype == np.float64 else "b"


def memory_kind(x: Spec) -> str | None:
    """Return the kind of the elements of an array that native code reads and writes in memory, None for another."""
    return KINDS.get(x.dtype) if x.is_array and x.dtype is not None and x.dtype.isnative else None


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
    return element_kind(x) is not None and is_few(x.size)


def is_few(n: int) -> bool:
    """True for so many numbers as are held in registers."""
    return n <= SMALL


def constant_kind(x: Any) -> str | None:
    """Return the kind of a plain number; None for an integer that float64 cannot tell from its neighbours, too."""
    kind = number_kind(spec_of(x))
    return None if kind == "i" and abs(x) > 1 << 53 else kind


def dense(shape: tuple[int, ...], itemsize: int = 8) -> tuple[int, ...]:
    """Return the strides of an array that lies row by row."""
    return tuple([itemsize * math.prod(shape[axis + 1:]) for axis in range(len(shape))])
