"""reductions: reductions of long arrays along some of their axes, and vecdot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.arrays import stored
from tapegrad.compile.native.function import LOWERINGS, Function
from tapegrad.compile.native.memory import short_first, target, vectors
from tapegrad.compile.native.small import over
from tapegrad.compile.native.table import JOINS, ROWS, reduced, reduces
from tapegrad.compile.native.values import (
    ELEMENTS,
    FLOATS,
    INEXACT,
    Array,
    Number,
    Unlowered,
    Value,
    dense,
    is_small,
    itemsize,
    kind_of,
)
from tapegrad.compile.native.vectors import Operand, Vectors, nest
from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call

LONG = 1 << 12  # maximal length of a sum along the last axis: beyond, NumPy's pairwise sum loses fewer digits
AT_ONCE = 4  # vectors of columns summed at once


def lower_along(f: Function, op: Call) -> Value:
    """Emit a reduction of a long array along some of its axes."""
    x, kind = f.array(op.args[0]), kind_of(op.spec)
    n = len(x.shape)
    axes = reduced(op, n)
    if not axes or not x.size or not reduces(op.fn, x.kind, kind):
        raise Unlowered("a reduction that the compiled code does not support")
    assert kind is not None
    v, step = vectors(f, x.kind, kind), itemsize(kind)
    kept, gone = [a for a in range(n) if a not in axes], axes
    small = is_small(op.spec) or not op.spec.is_array
    shape = tuple([x.shape[a] for a in kept])
    if small:
        made = Array(f.stack(step * max(math.prod(shape), 1)), shape, dense(shape, step), None, kind)
        to = made.strides
    else:
        made = f.place(op)
        to = made.strides if len(made.shape) == len(kept) else tuple([made.strides[a] for a in kept])
    count = math.prod(x.shape[a] for a in gone)
    inner = min(range(n), key=lambda a: (abs(x.strides[a]) if x.shape[a] > 1 else 1 << 60))
    fold = folded(f, op.fn, kind)
    if inner in axes:
        along_rows(f, v, x, [inner, *(a for a in gone if a != inner)], kept, made, to, fold, count)
    else:
        along_columns(f, v, x, gone, [*(a for a in kept if a != inner), inner], kept, made, to, fold, count)
    if not small:
        return made
    found = f.loaded(made._replace(shape=op.spec.shape, strides=dense(op.spec.shape, step)))
    return found if op.spec.is_array else Number(found.parts[0], kind)


Fold = Callable[[str, str], str]


def folded(f: Function, fn: Op, kind: str) -> Fold:
    """Return the function that combines two numbers, or two vectors, in a reduction."""
    row = ROWS[JOINS[fn]]
    return lambda a, b: row.write(f, [a, b], kind)


def read(v: Vectors, kind: str, at: str, step: int, count: int, to: str) -> str:
    """Load numbers and convert them to another kind."""
    with v.f.computing(v.lanes):
        return v.f.convert(v.load(kind, at, step, count), kind, to)


def identity(fn: Op, kind: str) -> Any:
    """Return the initial value of a sum, maximum, minimum, any or all."""
    if fn not in (ops.max, ops.min):
        return fn is ops.all
    if kind in FLOATS:
        return -math.inf if fn is ops.max else math.inf
    limits = np.iinfo(ELEMENTS[kind].dtype)
    return limits.min if fn is ops.max else limits.max


def along_line(f: Function, v: Vectors, kind: str, n: int, now: str, start: str, fold: Fold,
               given: Callable[[str, int], str]) -> str:
    """Combine n numbers into a vector, one vector at a time; the last one is padded with the initial value."""
    def joined(now: str, k: str, count: int) -> str:
        text = given(k, count)
        with f.computing(v.lanes):
            return fold(now, text if count == v.width else f.select(v.mask(count), kind, text, start))
    whole = n // v.width * v.width
    if whole:
        now, = f.loop(whole, [(v.lanes.type(kind), now)], lambda k, now: [joined(now[0], k, v.width)], v.width)
    return joined(now, str(whole), n % v.width) if n % v.width else now


def along_rows(f: Function, v: Vectors, x: Array, gone: list[int], kept: list[int], made: Array, to: Sequence[int],
               fold: Fold, count: int) -> None:
    """Reduce along contiguous numbers: a vector of partial results for each result."""
    op = f.now
    n, step = x.shape[gone[0]], x.strides[gone[0]]
    kind = made.kind
    if n > LONG and op.fn in (ops.sum, ops.mean) and kind in INEXACT:
        raise Unlowered("a sum over too long an axis")
    t, start = v.lanes.type(kind), v.lanes.constant(identity(op.fn, kind), kind)

    def line(pointer: str, now: list[str]) -> list[str]:
        return [along_line(f, v, kind, n, now[0], start, fold, lambda k, count: read(
            v, x.kind, f.at(pointer, f.times(k, step)), step, count, kind))]

    def outer(axes: list[int], pointer: str, now: list[str]) -> list[str]:
        if not axes:
            return line(pointer, now)
        return f.loop(x.shape[axes[0]], [(t, text) for text in now], lambda k, now: outer(
            axes[1:], f.at(pointer, f.times(k, x.strides[axes[0]])), now))

    def one(pointers: list[str]) -> None:
        text = v.total(outer(gone[1:], pointers[0], [start])[0], kind, fold)
        f.store(kind, over(f, text, count, kind) if op.fn is ops.mean else text, pointers[1])
    nest(f, [x.shape[a] for a in kept], [[x.strides[a] for a in kept], list(to)], [x.data, made.data], one)


def along_columns(f: Function, v: Vectors, x: Array, gone: list[int], order: list[int], kept: list[int], made: Array,
                  to: Sequence[int], fold: Fold, count: int) -> None:
    """Reduce along axes next to a contiguous axis: one or several vectors of results at once."""
    op, kind, t = f.now, made.kind, v.lanes.type(made.kind)
    steps = dict(zip(kept, to))
    n, step, out = x.shape[order[-1]], x.strides[order[-1]], steps[order[-1]]
    start = v.lanes.constant(identity(op.fn, kind), kind)

    def columns(pointers: list[str]) -> None:
        def some(k: str, count_here: int, many: int) -> None:
            def inner(axes: list[int], pointer: str, now: list[str]) -> list[str]:
                if not axes:
                    with f.computing(v.lanes):
                        given = [read(v, x.kind, f.at(pointer, v.width * step * each), step, count_here, kind)
                                 for each in range(many)]
                        return [fold(text, other) for text, other in zip(now, given)]
                return f.loop(x.shape[axes[0]], [(t, text) for text in now], lambda j, now: inner(
                    axes[1:], f.at(pointer, f.times(j, x.strides[axes[0]])), now))
            found = inner(gone, f.at(pointers[0], f.times(k, step)), [start] * many)
            for each, text in enumerate(found):
                if op.fn is ops.mean:
                    with f.computing(v.lanes):
                        text = over(f, text, count, kind)
                at = f.at(f.at(pointers[1], f.times(k, out)), v.width * out * each)
                v.store(made.kind, at, out, text, count_here)
        block = v.width * AT_ONCE
        whole, one = n // block * block, n // v.width * v.width

        def step_of(many: int, first: int) -> Callable[[str, list[str]], list[str]]:
            def body(k: str, _: list[str]) -> list[str]:
                some(f.plus(k, str(first)), v.width, many)
                return []
            return body
        if whole:
            f.loop(whole, [], step_of(AT_ONCE, 0), block)
        if one > whole:
            f.loop(one - whole, [], step_of(1, whole), v.width)
        if n % v.width:
            some(str(one), n % v.width, 1)
    axes = order[:-1]
    nest(f, [x.shape[a] for a in axes], [[x.strides[a] for a in axes], [steps[a] for a in axes]], [x.data, made.data],
         columns)


def lower_row_products(f: Function, op: Call) -> Value:
    """Emit vecdot of long arrays."""
    a, b = (stored(f, x) for x in op.args)
    kind, n = kind_of(op.spec), a.shape[-1]
    if op.kwargs or kind not in FLOATS or {a.kind, b.kind} != {kind} or b.shape[-1] != n or n > LONG:
        raise Unlowered("a product of vectors that the compiled code does not support")
    v, made, add = vectors(f, kind), target(f, op), folded(f, ops.sum, kind)
    nothing = v.lanes.constant(0.0, kind)

    def row(pointers: list[str]) -> None:
        def product(k: str, count: int) -> str:
            found = [v.load(kind, f.at(at, f.times(k, x.strides[-1])), x.strides[-1], count)
                     for at, x in zip(pointers, (a, b))]
            with f.computing(v.lanes):
                return ROWS[ops.multiply].write(f, found, kind)
        f.store(kind, v.total(along_line(f, v, kind, n, nothing, nothing, add, product), kind, add), pointers[2])
    along = [Operand.of(x, op.spec.shape, 1).strides for x in (a, b)]
    nest(f, op.spec.shape, [*along, made.strides], [a.data, b.data, made.data], row)
    return f.loaded(made) if is_small(op.spec) else made


for _op in JOINS:
    LOWERINGS[_op] = short_first(LOWERINGS[_op], lower_along)
LOWERINGS[ops.vecdot] = short_first(LOWERINGS[ops.vecdot], lower_row_products)
