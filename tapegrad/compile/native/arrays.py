"""arrays: long arrays in memory: views as addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.function import Function
from tapegrad.compile.native.values import (
    ELEMENTS,
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


def lower_view(f: Function, op: Call) -> Value:
    """Write a view of a long array that lies as NumPy finds on one that lies so, or the elements of a short one."""
    computed = any(isinstance(arg, Operation) and not isinstance(arg, Constant) for arg in op.args[1:])
    if op.fn not in VIEWS or "through" in op.kwargs or element_kind(spec_of(op.args[0])) is None or computed \
            or f.lanes.width > 1:
        raise Unlowered("no view")
    x = f.array(op.args[0])
    index = [arg.val if isinstance(arg, Constant) else arg for arg in op.args[1:]]
    found = part(f, x, lambda array: op.fn.impl(array, *index, **op.kwargs))
    if not op.spec.is_array:  # an element
        if number_kind(op.spec) != x.kind:
            raise Unlowered("a number of another type")
        return Number(f.load(x.kind, found.data), x.kind)
    if found.shape != op.spec.shape:
        raise Unlowered("a copy")
    f.views.add(op)
    return f.loaded(found) if is_small(op.spec) else found


def part(f: Function, x: Array, take: Callable[[Any], Any]) -> Array:
    """Return the part of an array, or the element, that a function of NumPy's takes. Raises Unlowered where that is no
    view.
    """
    like = lying(x)
    found = take(like)
    if not isinstance(found, np.ndarray):
        at = np.unravel_index(int(take(np.arange(like.size).reshape(like.shape))), x.shape)
        return Array(f.at(x.data, sum(int(i) * step for i, step in zip(at, x.strides))), (), (), x.owner, x.kind)
    if not np.may_share_memory(found, like):
        raise Unlowered("a copy")
    offset = found.__array_interface__["data"][0] - like.__array_interface__["data"][0]
    return Array(f.at(x.data, offset if found.size else 0), found.shape, found.strides, x.owner, x.kind)


def lower_row(f: Function, op: Call) -> Value:
    """Write a read at an integer that is computed: a row of an array, or an element."""
    if op.fn is not ops.getitem or len(op.args) != 2 or op.kwargs or spec_of(op.args[1]).type is not int:
        raise Unlowered("a place that is computed")
    x = stored(f, op.args[0])
    row = place_in(f, x, op.args[1])
    if not op.spec.is_array and number_kind(op.spec) == x.kind and not row.shape:
        return Number(f.load(x.kind, row.data), x.kind)
    if element_kind(op.spec) != x.kind or op.spec.shape != row.shape:
        raise Unlowered("of another type")
    f.views.add(op)
    return f.loaded(row) if is_small(op.spec) else row


def stored(f: Function, x: Any) -> Array:
    """Return the memory of an array; a small one's elements are put on the stack."""
    found = f.value(x)
    if not isinstance(found, Elements):
        return f.array(x)
    return in_memory(f, found)


def in_memory(f: Function, x: Elements) -> Array:
    """Put a small array on the stack."""
    if f.lanes.width > 1:
        raise Unlowered("memory within a batch")
    step = itemsize(x.kind)
    place = f.stack(step * len(x.parts))
    for number, part in enumerate(x.parts):
        f.store(x.kind, part, f.at(place, step * number))
    return Array(place, x.shape, dense(x.shape, step), None, x.kind)


def place_in(f: Function, x: Array, index: Any) -> Array:
    """Return the row at an integer that is computed; leave where there is none."""
    if not x.shape or spec_of(index).type is not int or f.lanes.width > 1:
        raise Unlowered("no integer of an axis")
    number = f.number(index).ir
    last, below = f.op(f"add i64 {number}, {x.shape[0]}"), f.op(f"icmp slt i64 {number}, 0")
    place = f.op(f"select i1 {below}, i64 {last}, i64 {number}")
    f.require(f.op(f"icmp ult i64 {place}, {x.shape[0]}"))
    return Array(f.at(x.data, f.times(place, x.strides[0])), x.shape[1:], x.strides[1:], x.owner, x.kind)


def lying(x: Array) -> Any:
    """Return an array that nobody may read, of the strides of another."""
    below = sum(step * (n - 1) for n, step in zip(x.shape, x.strides) if step < 0 and n)
    above = sum(step * (n - 1) for n, step in zip(x.shape, x.strides) if step > 0 and n)
    size = ELEMENTS[x.kind].dtype.itemsize
    return np.ndarray(x.shape, ELEMENTS[x.kind].dtype, np.empty(above - below + size, np.uint8), -below, x.strides)
