"""kernel_layout: the memory layout of tensors in a kernel, and views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from tapegrad.compile.native.values import dense


class Unwritten(Exception):
    """A loop cannot be written as a kernel and is left to torch's operators."""


class Ref(NamedTuple):
    """A tensor in the kernel: strided elements of a pointer with an offset; or a number, `base` then being its C
    expression.
    """

    base: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: str = "0"
    place: str = ""  # the name of its memory, "" for a number

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_dense(self) -> bool:
        return self.strides == dense(self.shape) or self.size == 1

    @property
    def is_number(self) -> bool:
        """Whether it is an expression without memory."""
        return not self.place


VIEWS: dict[str, Callable[..., Ref]] = {}
"""Functions that return views, by torch's name."""


def view(fn: Callable[..., Ref]) -> Callable[..., Ref]:
    VIEWS[fn.__name__.rstrip("_")] = fn
    return fn


@view
def select(x: Ref, axis: int, index: Any) -> Ref:
    axis %= len(x.shape)
    if type(index) is int:
        index = str(index % x.shape[axis])
    elif isinstance(index, Ref) and index.is_number and index.dtype is torch.int64:
        index = f"({index.base} < 0 ? {index.base} + {x.shape[axis]} : {index.base})"
    else:
        raise Unwritten("an index that is computed on the device")
    at = f"{x.offset} + {index} * {x.strides[axis]}"
    return x._replace(shape=without(x.shape, axis), strides=without(x.strides, axis), offset=at)


@view
def slice_(x: Ref, axis: int = 0, start: Any = None, stop: Any = None, step: int = 1) -> Ref:
    axis %= len(x.shape)
    places = range(x.shape[axis])[start:stop:step]
    at = f"{x.offset} + {places.start * x.strides[axis] if places else 0}"
    shape, strides = list(x.shape), list(x.strides)
    shape[axis], strides[axis] = len(places), step * x.strides[axis]
    return x._replace(shape=tuple(shape), strides=tuple(strides), offset=at)


@view
def unsqueeze(x: Ref, axis: int) -> Ref:
    axis %= len(x.shape) + 1
    return x._replace(shape=(*x.shape[:axis], 1, *x.shape[axis:]), strides=(*x.strides[:axis], 0, *x.strides[axis:]))


@view
def squeeze(x: Ref, axes: Any = None) -> Ref:
    gone = [axis for axis in axes_of(x, axes) if x.shape[axis] == 1]
    kept = [i for i in range(len(x.shape)) if i not in gone]
    return x._replace(shape=tuple([x.shape[i] for i in kept]), strides=tuple([x.strides[i] for i in kept]))


@view
def permute(x: Ref, axes: Sequence[int]) -> Ref:
    return x._replace(shape=tuple([x.shape[i] for i in axes]), strides=tuple([x.strides[i] for i in axes]))


@view
def transpose(x: Ref, a: int, b: int) -> Ref:
    axes = list(range(len(x.shape)))
    if axes:  # torch accepts axis 0 for a 0-d tensor
        axes[a], axes[b] = axes[b], axes[a]
    return permute(x, axes)


@view
def t(x: Ref) -> Ref:
    return permute(x, range(len(x.shape))[::-1])


@view
def expand(x: Ref, shape: Sequence[int]) -> Ref:
    before = (0,) * (len(shape) - len(x.shape)) + x.shape
    shape = tuple([old if new == -1 else new for new, old in zip(shape, before)])
    return x._replace(shape=shape, strides=stretched(x, shape))


@view
def view_(x: Ref, shape: Sequence[int]) -> Ref:
    if not x.is_dense:
        raise Unwritten("a tensor that is not contiguous in C order")
    rest = x.size // max(-math.prod(shape), 1)
    shape = tuple([rest if n == -1 else n for n in shape])
    return x._replace(shape=shape, strides=dense(shape))


@view
def detach(x: Ref) -> Ref:
    return x


VIEWS |= {"reshape": view_, "_unsafe_view": view_, "alias": detach}


def axes_of(x: Ref, axes: Any) -> list[int]:
    """Return axes as sorted nonnegative numbers, all axes for None; none for a 0-d tensor, where torch accepts 0."""
    axes = range(len(x.shape)) if axes is None else [axes] if type(axes) is int else axes
    return sorted({axis % len(x.shape) for axis in axes}) if x.shape else []


def without(x: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return x[:axis] + x[axis + 1:]


def stretched(x: Ref, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor broadcast to a shape."""
    new = len(shape) - len(x.shape)
    return (*(0,) * new, *(0 if old == 1 != now else step for old, now, step in zip(x.shape, shape[new:], x.strides)))


def index(x: Ref, shape: tuple[int, ...], i: str) -> str:
    """Write the memory index of element `i` of a tensor broadcast to a shape."""
    strides = stretched(x, shape)
    steps = [(n, step, later) for n, step, later in zip(shape, strides, dense(shape)) if step and n > 1]
    if all(step == later for _, step, later in steps) and len(steps) == sum(n > 1 for n in shape):
        at = [i] if steps else []
    else:
        whole = math.prod(shape)
        at = [f"{i} / {later} % {n} * {step}" if later * n < whole else f"{i} / {later} * {step}"
              for n, step, later in steps]
    return " + ".join([x.offset, *at] if x.offset != "0" else at) or "0"


def order(x: Ref, out: Ref) -> int:
    """Return the number of elements if each thread that computes element i of `out` accesses element i of x's memory,
    else 0.
    """
    return x.size if x.is_dense and x.size == out.size and x.offset == "0" else 0


def clash(seen: dict[str, int], place: str, order: int) -> bool:
    """Return whether memory already accessed in one thread order would be accessed in another."""
    return place in seen and (order == 0 or seen[place] != order)
