"""arrays: long arrays in memory, and views of them as addresses with strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.function import WAITING, Function
from tapegrad.compile.native.values import (
    ELEMENTS,
    INTEGERS,
    Array,
    Elements,
    Number,
    Unlowered,
    Value,
    dense,
    element_kind,
    is_small,
    itemsize,
    number_kind,
)
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Constant, Operation

VIEWS = frozenset([ops.getitem, ops.reshape, ops.permute_dims, ops.expand_dims, ops.squeeze, ops.flip, ops.diagonal])
WAITING |= {*VIEWS, ops.getfield}


def lower_view(f: Function, op: Call) -> Value:
    """Emit a view of a long array with the layout that NumPy gives it, or the elements of a small view."""
    if op.fn not in VIEWS or "through" in op.kwargs or element_kind(spec_of(op.args[0])) is None or f.lanes.batch:
        raise Unlowered("an operation that is not a view")
    if op.fn is ops.getitem:
        found = part_of(f, stored(f, op.args[0]), op.args[1:])
    else:
        found = part(f, stored(f, op.args[0]), lambda x: op.fn.impl(x, *map(known, op.args[1:]), **op.kwargs))
    if not op.spec.is_array:  # a single element
        if number_kind(op.spec) != found.kind or found.shape:
            raise Unlowered("a number of an unsupported type")
        return Number(f.load(found.kind, found.data), found.kind)
    if found.shape != op.spec.shape or found.kind != element_kind(op.spec):
        raise Unlowered("a view that needs a copy")
    f.views.add(op)
    return f.loaded(found) if is_small(op.spec) else found


def is_computed(x: Any) -> bool:
    """Return whether a part of an index is computed at run time."""
    return isinstance(x, Operation) and not isinstance(x, Constant)


def known(x: Any) -> Any:
    """Return the value of a constant. Raises Unlowered for a value computed at run time."""
    if is_computed(x):
        raise Unlowered("an index that is computed")
    return x.val if isinstance(x, Constant) else x


def part(f: Function, x: Array, take: Callable[[Any], Any]) -> Array:
    """Return the part of an array, or the element, that a NumPy function selects. Raises Unlowered if the result is not
    a view.
    """
    like = empty_like_layout(x)
    found = take(like)
    if not isinstance(found, np.ndarray):
        at = np.unravel_index(int(take(np.arange(like.size).reshape(like.shape))), x.shape)
        return Array(f.at(x.data, sum(int(i) * step for i, step in zip(at, x.strides))), (), (), x.owner, x.kind)
    if not np.may_share_memory(found, like):
        raise Unlowered("a view that needs a copy")
    offset = found.__array_interface__["data"][0] - like.__array_interface__["data"][0]
    return Array(f.at(x.data, offset if found.size else 0), found.shape, found.strides, x.owner, x.kind)


def part_of(f: Function, x: Array, index: Sequence[Any]) -> Array:
    """Return the part of an array that an index selects; the index may contain integers computed at run time, and
    native code bails out if one is out of range. Raises Unlowered if the result is not a view.
    """
    if not any(map(is_computed, index)):
        return part(f, x, lambda array: array[tuple(map(known, index))])
    if any(isinstance(each, (list, np.ndarray)) or type(each) is bool
           or (is_computed(each) and number_kind(each.spec) not in INTEGERS) for each in index):
        raise Unlowered("indices that are not integers")
    rest = len(x.shape) - sum(each is not None and each is not Ellipsis for each in index)
    first, axis, data = [], 0, x.data
    for each in index:
        if is_computed(each):
            data = f.at(data, f.times(place_in(f, each, x.shape[axis]), x.strides[axis]))
        first.append(0 if is_computed(each) else known(each))
        axis += 0 if each is None else rest if each is Ellipsis else 1
    return part(f, x._replace(data=data), lambda array: array[tuple(first)])


def place_in(f: Function, index: Operation, n: int) -> str:
    """Return a computed index as a nonnegative one along an axis of length n; bail out if it is out of range."""
    if not n or f.lanes.batch:
        raise Unlowered("an index along an empty axis")
    found = f.number(index)
    number = f.convert(found.ir, found.kind, "i")
    least, most = f.ranges.get(number, (-n - 1, n))
    if least >= 0 and most < n:
        return number
    last, below = f.op(f"add i64 {number}, {n}"), f.op(f"icmp slt i64 {number}, 0")
    place = f.op(f"select i1 {below}, i64 {last}, i64 {number}")
    f.require(f.op(f"icmp ult i64 {place}, {n}"))
    return place


def stored(f: Function, x: Any) -> Array:
    """Return an array in memory; a small one is spilled to the stack."""
    found = f.value(x)
    return f.cached("stored", x, lambda: in_memory(f, found)) if isinstance(found, Elements) else f.array(x)


def operand(f: Function, x: Any) -> Number | Elements | Array:
    """Return an argument as a value that can be copied into an array."""
    if number_kind(spec_of(x)) is not None:
        return f.number(x)
    found = f.value(x)
    return found if isinstance(found, Elements) else f.array(x)


def in_memory(f: Function, x: Elements) -> Array:
    """Store a small array on the stack."""
    if f.lanes.batch:
        raise Unlowered("an array in memory within a batch")
    step = itemsize(x.kind)
    place = f.stack(step * len(x.parts))
    for number, part in enumerate(x.parts):
        f.store(x.kind, part, f.at(place, step * number))
    return Array(place, x.shape, dense(x.shape, step), None, x.kind)


def empty_like_layout(x: Array) -> Any:
    """Return an uninitialised array with the shape, dtype and strides of `x`, for layout computations."""
    below = sum(step * (n - 1) for n, step in zip(x.shape, x.strides) if step < 0 and n)
    above = sum(step * (n - 1) for n, step in zip(x.shape, x.strides) if step > 0 and n)
    size = ELEMENTS[x.kind].dtype.itemsize
    return np.ndarray(x.shape, ELEMENTS[x.kind].dtype, np.empty(above - below + size, np.uint8), -below, x.strides)
