"""memory: calls that move or add whole arrays in memory: copies, writes, concatenations, scatters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.arrays import in_memory, is_computed, known, lower_view, operand, part_of, stored
from tapegrad.compile.native.function import LOWERINGS, Function
from tapegrad.compile.native.small import MOVES, NEW, ZEROS, filling, moved_by  # registers its lowerings first
from tapegrad.compile.native.table import ROWS
from tapegrad.compile.native.values import (
    COMPLEX,
    FLOATS,
    Array,
    Elements,
    Number,
    Unlowered,
    Value,
    dense,
    element_kind,
    is_small,
    itemsize,
    kind_of,
    natural,
    number_kind,
)
from tapegrad.compile.native.vectors import Operand, Vectors, collapsed, nest, vectors_of
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Constant, Operation

PLAIN = {"shape", "ranks", "order", "dtype"}  # keywords of a scatter without views
STRETCHES = 8  # contiguous pieces that are copied one by one, at most


def vectors(f: Function, *kinds: str) -> Vectors:
    """Return a Vectors for numbers of some kinds. Raises Unlowered within a batch."""
    if f.lanes.batch:
        raise Unlowered("an array in memory within a batch")
    return vectors_of(f, f.target.lanes.wide(kinds or "f"))


# -- copies


def copy(f: Function, to: Array, x: Number | Elements | Array, add: bool = False) -> None:
    """Store a value into an array, or add it; numbers and smaller arrays are broadcast."""
    v = vectors(f, to.kind, x.kind)
    if x.kind != to.kind and not (to.kind in FLOATS and x.kind not in COMPLEX):
        raise Unlowered("values of another dtype")
    if isinstance(x, Elements) and to.shape == x.shape and len(x.parts) <= 2 * v.width and not add:
        for index, part in zip(np.ndindex(*x.shape), x.parts):
            at = f.at(to.data, sum(i * step for i, step in zip(index, to.strides)))
            f.store(to.kind, f.convert(part, x.kind, to.kind), at)
        return
    if isinstance(x, Elements) and len(x.parts) == 1:
        x = Number(x.parts[0], x.kind)
    elif isinstance(x, Elements):
        x = in_memory(f, x)
    if isinstance(x, Array) and len(x.shape) > len(to.shape):  # only by leading axes of length 1
        x = x._replace(shape=x.shape[-len(to.shape):], strides=x.strides[-len(to.shape):])
    if math.prod(to.shape) == 1:
        text = f.convert(x.ir if isinstance(x, Number) else f.load(x.kind, x.data), x.kind, to.kind)
        if add:
            text = ROWS[ops.add].write(f, [f.load(to.kind, to.data), text], to.kind)
        f.store(to.kind, text, to.data)
        return
    if isinstance(x, Array) and x.kind == to.kind and not add and x.shape == to.shape and x.strides == to.strides \
            and to.strides == dense(to.shape, itemsize(to.kind)):
        nbytes = to.size * itemsize(to.kind)
        f.put(f"call void @llvm.memcpy.p0.p0.i64(ptr {to.data}, ptr {x.data}, i64 {nbytes}, i1 false)")
        return
    sources = [] if isinstance(x, Number) else [Operand.of(x, to.shape, 0)]
    shape, strides = collapsed(to.shape, [to.strides, *(each.strides for each in sources)])
    same = v.splat(f.convert(x.ir, x.kind, to.kind), to.kind) if isinstance(x, Number) else None

    def line(pointers: list[str]) -> None:
        def some(k: str, count: int) -> None:
            at = f.at(pointers[0], f.times(k, strides[0][-1]))
            text = same
            if text is None:
                kind, step = sources[0].kind, strides[1][-1]
                text = v.load(kind, f.at(pointers[1], f.times(k, step)), step, count)
            before = v.load(to.kind, at, strides[0][-1], count) if add else ""
            with f.computing(v.lanes):
                text = f.convert(text, sources[0].kind, to.kind) if sources else text
                text = ROWS[ops.add].write(f, [before, text], to.kind) if add else text
            v.store(to.kind, at, strides[0][-1], text, count)
        v.each(shape[-1], some)
    nest(f, shape[:-1], [steps[:-1] for steps in strides], [to.data, *(each.data for each in sources)], line)


def fill(f: Function, to: Array) -> None:
    """Fill new memory with zeros."""
    if to.size:
        f.put(f"call void @llvm.memset.p0.i64(ptr {to.data}, i8 0, i64 {to.size * itemsize(to.kind)}, i1 false)")


def apart(f: Function, x: Array) -> Array:
    """Return a copy of an array in memory of its own, in C order."""
    block = f.memory(x.size * itemsize(x.kind))
    found = Array(block.name, x.shape, dense(x.shape, itemsize(x.kind)), block, x.kind)
    copy(f, found, x)
    return found


# -- calls


def lower_new(f: Function, op: Call) -> Value:
    """Emit an array of zeros, ones, or one number."""
    made = f.place(op)
    if op.fn in ZEROS:
        fill(f, made)
    elif made.size:
        copy(f, made, filling(f, op, made.kind))
    return made


def lower_joined(f: Function, op: Call) -> Value:
    """Emit a concatenation, or a stack along a new axis."""
    vectors(f)
    axis, made, at = op.kwargs.get("axis", 0) % op.spec.ndim, f.place(op), 0
    if op.kwargs.keys() - {"axis"}:
        raise Unlowered("concatenation with unsupported options")
    for x in op.args:
        shape = spec_of(x).shape
        n = 1 if op.fn is ops.stack else shape[axis]
        index = (slice(None),) * axis + ((at,) if op.fn is ops.stack else (slice(at, at + n),))
        if n and math.prod(shape):
            copy(f, part_of(f, made, index), operand(f, x))
        at += n
    return made


def lower_pieces(f: Function, op: Call) -> Value:
    """Emit a scatter: a sum of pieces at known indices, zero elsewhere."""
    vectors(f)
    pieces, largest = pieces_of(op), largest_piece(f, op)
    there = ("sum", op) in f.cache
    made = f.cache["sum", op] if there else f.place(op)
    if largest is None:
        fill(f, made)
    else:  # it is stored, not added to zeros
        step, (number, low, high) = itemsize(made.kind), largest
        x, index = pieces.pop(number)
        for start, end in ((0, low), (high, made.size)):
            if end > start:
                at = f.at(made.data, step * start)
                f.put(f"call void @llvm.memset.p0.i64(ptr {at}, i8 0, i64 {step * (end - start)}, i1 false)")
        if not there:
            copy(f, part_of(f, made, index), operand(f, x))
    for x, index in pieces:
        value = operand(f, x)
        if any(map(is_list, index)):
            add_at(f, made, value, index)
        else:
            copy(f, part_of(f, made, index), value, add=True)
    return f.loaded(made) if is_small(op.spec) else made


def pieces_of(op: Operation) -> list[tuple[Any, Sequence[Any]]]:
    """Return the pieces of a scatter, each with its index. Raises Unlowered for pieces of views."""
    if op.kwargs.keys() - PLAIN:
        raise Unlowered("a scatter into views")
    pieces, at = list[tuple[Any, Sequence[Any]]](), 0
    for rank in op.kwargs["ranks"]:
        pieces.append((op.args[at], op.args[at + 1:at + 1 + rank]))
        at += 1 + rank
    return pieces


def largest_piece(f: Function, op: Operation) -> tuple[int, int, int] | None:
    """Return the number of the largest piece of a scatter, and the range of elements that it fills; None if these are
    not contiguous.
    """
    def find() -> tuple[int, int, int] | None:
        if natural(op.spec) != dense(op.spec.shape, op.spec.itemsize) or op.kwargs.keys() - PLAIN:
            return None
        places = np.arange(op.spec.size).reshape(op.spec.shape)
        taken = [np.ravel(places.ravel()[:0] if any(is_list(i) or is_computed(i) for i in index)
                          else places[tuple(map(known, index))]) for _, index in pieces_of(op)]
        number = max(range(len(taken)), key=lambda k: taken[k].size)
        found = taken[number]
        if not found.size or not np.array_equal(found, np.arange(found[0], found[0] + found.size)):
            return None
        return number, int(found[0]), int(found[0]) + found.size
    return f.cached("largest", op, find)  # type: ignore[no-any-return]


def place(f: Function, op: Operation) -> Array:
    """Return memory for the array that an operation returns. If its only use is as the largest piece of a scatter, that
    is its part of the scatter's memory; no other piece may read it.
    """
    users, spec = f.users.get(op, []), op.spec
    total = users[0] if len(users) == 1 else op
    if (total.fn is not ops.scatter or f.depth or op in f.plan.objects or total in f.env or total in f.pending
            or total.spec.dtype != spec.dtype or natural(spec) != dense(spec.shape, spec.itemsize)):
        return f.place(op)
    largest = largest_piece(f, total)
    if largest is None or spec.size != largest[2] - largest[1]:
        return f.place(op)
    pieces = [x for x, _ in pieces_of(total)]
    if pieces[largest[0]] is not op or pieces.count(op) != 1:
        return f.place(op)
    made = f.cached("sum", total, lambda: f.place(total))
    f.adopt(op)
    return Array(f.at(made.data, itemsize(made.kind) * largest[1]), spec.shape, natural(spec), made.owner, made.kind)


def target(f: Function, op: Call) -> Array:
    """Return memory for a value; for a small one, on the stack."""
    y = op.spec
    if not y.is_array or is_small(y):
        kind = kind_of(y)
        if kind is None:
            raise Unlowered("values of an unsupported dtype")
        return Array(f.stack(itemsize(kind) * max(y.size, 1)), y.shape, dense(y.shape, itemsize(kind)), None, kind)
    return f.place(op)


def is_list(x: Any) -> bool:
    """Return whether a part of an index is an array or a list."""
    return isinstance(x.val if isinstance(x, Constant) else x, (np.ndarray, list))


def add_at(f: Function, to: Array, x: Number | Elements | Array, index: Sequence[Any]) -> None:
    """Add numbers at a list of known indices, one after the other."""
    places = np.arange(math.prod(to.shape)).reshape(to.shape)[tuple(map(known, index))]
    table = offsets(to)[places.ravel()]
    if isinstance(x, Elements):
        x = in_memory(f, x)
    step = itemsize(to.kind)
    if not isinstance(x, Array) or x.shape != places.shape or x.strides != dense(x.shape, step) or x.kind != to.kind:
        raise Unlowered("an array of another dtype or memory order")
    data, of = f.integers(table), x.data

    def one(k: str, _: list[str]) -> list[str]:
        at = f.at(to.data, f.op(f"load i64, ptr {f.at(data, f.times(k, 8))}, align 8"))
        piece = f.load(to.kind, f.at(of, f.times(k, step)))
        f.store(to.kind, ROWS[ops.add].write(f, [piece, f.load(to.kind, at)], to.kind), at)
        return []
    if table.size:
        f.loop(table.size, [], one)


def offsets(x: Array) -> Any:
    """Return the byte offset of each element of an array, in C order."""
    found = np.zeros(x.shape, np.int64)
    for axis, (n, step) in enumerate(zip(x.shape, x.strides)):
        found += (np.arange(n) * step).reshape(-1, *(1,) * (len(x.shape) - axis - 1))
    return found.ravel()


def lower_gather(f: Function, op: Call) -> Value:
    """Emit a call that takes elements of a long array from known positions: a few contiguous pieces by copies, others
    one by one.
    """
    if op.fn is ops.broadcast_to:
        made = f.place(op)
        copy(f, made, operand(f, op.args[0]))
        return made
    x = f.array(op.args[0])
    v, step = vectors(f), itemsize(x.kind)
    numbered = np.arange(1, x.size + 1).reshape(x.shape)
    places = moved_by(op, [numbered], list(map(known, op.args[1:])), x.kind in COMPLEX) - 1
    if element_kind(op.spec) != x.kind or places.shape != op.spec.shape or np.any(places < 0):
        raise Unlowered("elements that do not come from the array")
    table = offsets(x)[places.ravel()]
    if is_small(op.spec):
        return Elements(tuple([f.load(x.kind, f.at(x.data, int(at))) for at in table]), op.spec.shape, x.kind)
    made = f.place(op)
    axes = sorted(range(len(made.shape)), key=lambda axis: (-made.strides[axis], axis))  # in the order of memory
    table = table.reshape(made.shape).transpose(axes).ravel()
    starts = [0, *np.flatnonzero(np.diff(table) != step) + 1]
    if len(starts) <= STRETCHES:
        for start, stop in zip(starts, [*starts[1:], table.size]):
            n = int(stop - start)
            copy(f, Array(f.at(made.data, step * int(start)), (n,), (step,), made.owner, x.kind),
                 Array(f.at(x.data, int(table[start])), (n,), (step,), x.owner, x.kind))
        return made
    data = f.integers(table)

    def some(k: str, count: int) -> None:
        at = v.load("i", f.at(data, f.times(k, 8)), 8, count)
        v.store(x.kind, f.at(made.data, f.times(k, step)), step, v.gather(v.rows(x.data, at), x.kind), count)
    v.each(table.size, some)
    return made


def lower_pad(f: Function, op: Call) -> Value:
    """Emit a padding by one number."""
    x, widths, *value = op.args
    border = value[0] if value else op.kwargs.get("value", 0)
    if number_kind(spec_of(border)) is None:
        raise Unlowered("padding with values that are not numbers")
    made, of, given = f.place(op), spec_of(x).shape, operand(f, x)
    if isinstance(border, Operation):
        copy(f, made, f.number(border))
    else:
        copy(f, made, Number(f.lanes.constant(op.spec.dtype.type(border).item(), made.kind), made.kind))
    copy(f, part_of(f, made, [slice(before, before + n) for n, (before, _) in zip(of, widths)]), given)
    return made


def lower_assignment(f: Function, op: Call) -> Value:
    """Emit an array with a part replaced: in place if nothing else needs the old value, else in a copy."""
    vectors(f)
    x, value, *index = op.args
    if op.kwargs or not isinstance(x, Operation):
        raise Unlowered("a write through a view")
    new, old = operand(f, value), stored(f, x)
    made = old
    if f.may_write(op, x, old) and set_apart(f, op, x, old):
        f.adopt(op)
    else:
        made = f.place(op)
        copy(f, made, old)
    to = part_of(f, made, index)
    if isinstance(new, Array) and new.owner is not None and new.owner is made.owner:
        new = apart(f, new)
    copy(f, to, new)
    return made


def set_apart(f: Function, op: Call, x: Operation, memory: Array) -> bool:
    """Copy the views of an array that are read after a write into it. Return False if these are most of it, or the
    array itself is read.
    """
    later = f.needed_after(op, memory)
    if x in later or 2 * sum(y.spec.size for y in later) > memory.size:
        return False
    for y in later:
        f.stand_for(y, apart(f, f.array(y)))
    return True


# -- registration


def short_first(short: Callable[[Function, Call], Value], long: Callable[[Function, Call], Value]) -> Any:
    """Return a lowering that tries `short`, for small arrays, then `long`, for arrays in memory."""
    def write(f: Function, op: Call) -> Value:
        mark = f.mark(), f.undone()
        try:
            return short(f, op)
        except Unlowered:
            f.take_back(*mark)
            return long(f, op)
    return write


_moved = short_first(lower_view, lower_gather)
_LONG = {**dict.fromkeys(MOVES, _moved), **dict.fromkeys(NEW, lower_new),
         **dict.fromkeys((ops.concat, ops.stack), lower_joined),
         ops.scatter: lower_pieces, ops.setitem: lower_assignment, ops.getitem: _moved,
         ops.pad: short_first(lower_gather, lower_pad)}
for _op, _write in _LONG.items():
    LOWERINGS[_op] = short_first(LOWERINGS[_op], _write)
