"""products: matrix products in memory, by the BLAS that NumPy calls."""

from __future__ import annotations

import math
from typing import Any

from tapegrad import ops
from tapegrad.compile.native.arrays import stored
from tapegrad.compile.native.function import LOWERINGS, WAITING, Function
from tapegrad.compile.native.jobs import LARGE, flops_of, job
from tapegrad.compile.native.memory import apart, short_first, target
from tapegrad.compile.native.values import (
    COMPLEX,
    ELEMENTS,
    Array,
    Number,
    Unlowered,
    Value,
    is_small,
    itemsize,
)
from tapegrad.compile.native.vectors import nest
from tapegrad.tape.tape import Call

ROW_MAJOR, AS_IT_IS, TURNED = 101, 111, 112  # CBLAS constants
SYMBOLS = {"f": "dgemm", "s": "sgemm", "c": "zgemm", "z": "cgemm"}
"""CBLAS functions for matrix products, by number kind."""


def lower_product(f: Function, op: Call) -> Value:
    """Emit matrix products, one for each index of the leading axes."""
    if not f.target.blas or f.lanes.batch or op.kwargs or len(op.args) != 2:
        raise Unlowered("a product with other arguments than two arrays, or without BLAS")
    a, b = (stored(f, x) for x in op.args)
    kind, step = a.kind, itemsize(a.kind)
    if kind not in SYMBOLS or b.kind != kind or not a.shape or not b.shape:
        raise Unlowered("a product of a dtype that BLAS does not support")
    if kind in COMPLEX and op.fn is ops.vecmat:
        raise Unlowered("a product with a complex conjugate")
    if op.fn is ops.dot and max(len(a.shape), len(b.shape)) > 2:
        raise Unlowered("dot of arrays with more than two axes")
    if op.fn in (ops.matmul, ops.dot):
        row, column = len(a.shape) == 1, len(b.shape) == 1
    else:
        row, column = op.fn is ops.vecmat, op.fn is ops.matvec
        if op.fn not in (ops.vecmat, ops.matvec):
            raise Unlowered("a product of vectors")
    if row:
        a = a._replace(shape=(*a.shape[:-1], 1, a.shape[-1]),
                       strides=(*a.strides[:-1], step * a.shape[-1], a.strides[-1]))
    if column:
        b = b._replace(shape=(*b.shape, 1), strides=(*b.strides, step))
    a, b = matrix(f, a), matrix(f, b)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    made = target(f, op)
    batch = made.shape[:len(made.shape) - 2 + row + column]
    whole = made.strides[len(batch):]
    c = (whole[0] if not row else step * n, whole[-1] if not column else step) if whole else (step, step)
    if not (m and n and math.prod(batch)):
        return made
    if not k or c[1] != step or (m > 1 and c[0] < step * n):
        raise Unlowered("a product whose strides the compiled code does not support")
    t, symbol = "ptr" if kind in COMPLEX else f.lanes.type(kind), f"tapegrad_{SYMBOLS[kind]}"
    f.declare(f"declare void @{symbol}(i32, i32, i32, i64, i64, i64, {t}, ptr, i64, ptr, i64, {t}, ptr, i64)")
    steps = [lead(a, batch), lead(b, batch), list(made.strides[:len(batch)])]
    (ta, la), (tb, lb) = turned(a), turned(b)
    one, none = (f.constants(ELEMENTS[kind].part, [x, 0.0]) if kind in COMPLEX else f.lanes.constant(x, kind)
                 for x in (1.0, 0.0))

    def write(*at: str) -> None:
        nest(f, batch, steps, list(at), lambda at: f.put(
            f"call void @{symbol}(i32 {ROW_MAJOR}, i32 {ta}, i32 {tb}, i64 {m}, i64 {n}, i64 {k}, {t} {one}, "
            f"ptr {at[0]}, i64 {la}, ptr {at[1]}, i64 {lb}, {t} {none}, ptr {at[2]}, i64 {max(c[0] // step, n)})"))
    flops = flops_of(op)
    if f.threads and flops >= LARGE and op in f.own and not f.depth:
        f.jobs.append(job(f, (a.data, b.data, made.data), made, flops, write))
        return made
    write(a.data, b.data, made.data)
    if not op.spec.is_array:
        return Number(f.load(kind, made.data), kind)
    return f.loaded(made) if is_small(op.spec) else made


def lead(x: Array, batch: tuple[int, ...]) -> list[int]:
    """Return an array's strides along the axes before the last two."""
    shape, strides = x.shape[:-2], x.strides[:-2]
    steps = [0 if n == 1 and of != 1 else step for n, of, step in zip(shape, batch[len(batch) - len(shape):], strides)]
    return [0] * (len(batch) - len(shape)) + steps


def turned(x: Array) -> tuple[int, int]:
    """Return the CBLAS transposition flag of matrices, and their leading dimension."""
    m, n = x.shape[-2:]
    (down, right), step = x.strides[-2:], itemsize(x.kind)
    if right == step or n == 1:
        return AS_IT_IS, max(down // step if m > 1 else n, n)
    return TURNED, max(right // step, m)


def matrix(f: Function, x: Array) -> Array:
    """Return matrices with a layout that CBLAS accepts: contiguous rows or contiguous columns."""
    m, n = x.shape[-2:]
    (down, right), step = x.strides[-2:], itemsize(x.kind)
    by_rows = (right == step or n == 1) and (m == 1 or (down % step == 0 and down >= step * n))
    by_columns = (down == step or m == 1) and (n == 1 or (right % step == 0 and right >= step * m))
    if by_rows or by_columns:
        return x
    return apart(f, x)


def _lowering(op: Any) -> Any:
    return short_first(LOWERINGS[op], lower_product)


PRODUCTS = (ops.matmul, ops.dot, ops.matvec, ops.vecmat)
LOWERINGS |= {op: _lowering(op) for op in PRODUCTS}
WAITING |= {*PRODUCTS}
