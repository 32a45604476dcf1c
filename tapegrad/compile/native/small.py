"""small: moves, reductions and products of small arrays, whose elements are in registers.

An op that only moves elements runs in NumPy when the tape is compiled, on the positions of the elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.arrays import is_computed, known, lower_view, operand
from tapegrad.compile.native.elementwise import stretched
from tapegrad.compile.native.function import LOWERINGS, Function
from tapegrad.compile.native.table import JOINS, ROWS, reduced, reduces
from tapegrad.compile.native.values import (
    COMPLEX,
    INEXACT,
    Array,
    Elements,
    Number,
    Unlowered,
    Value,
    element_kind,
    kind_of,
    number_kind,
)
from tapegrad.rules.op import OPS
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Constant, operands

MOVES = [op for op in OPS.values() if op.memory.moved and op is not ops.where and op not in LOWERINGS]
ZEROS, ONES = (ops.zeros, ops.empty, ops.zeros_like, ops.empty_like), (ops.ones, ops.ones_like)
NEW = (*ZEROS, *ONES, ops.full, ops.full_like)
PRODUCT = 256  # multiplications of an unrolled product, at most


def is_value(f: Function, x: Spec) -> bool:
    """Return whether a value is held in registers."""
    return number_kind(x) is not None or f.is_small(x)


def result(f: Function, op: Call, parts: Sequence[str], kind: str) -> Value:
    """Return the value of a call from its elements."""
    y = op.spec
    if (number_kind(y) or (element_kind(y) if f.is_small(y) else None)) != kind or len(parts) != max(y.size, 1) * (
            y.size > 0 or not y.is_array):
        raise Unlowered("a value of an unsupported type")
    return Number(parts[0], kind) if number_kind(y) else Elements(tuple(parts), y.shape, kind)


def lower_move(f: Function, op: Call) -> Value:
    """Emit a call that only moves elements; for a long array, as a view."""
    if not is_value(f, op.spec) or not all(is_value(f, x.spec) or isinstance(x, Constant) for x in operands(op)):
        return lower_view(f, op)
    index = () if op.fn in (ops.concat, ops.stack) else op.args[2 if op.fn is ops.setitem else 1:]
    if any(map(is_computed, index)):
        return lower_view(f, op)
    moved = op.args[:len(op.args) - len(index)]
    given, kind = [f.elements(x) for x in moved], required_kind(op.spec)
    if kind in COMPLEX and op.kwargs.get("through"):
        raise Unlowered("the real or imaginary part of a complex array")
    texts, numbered = [f.lanes.constant(0, kind)], []
    for x in given:
        if x.kind != kind and not (kind in INEXACT and x.kind not in COMPLEX):
            raise Unlowered("values of several dtypes")
        numbered.append(np.arange(len(texts), len(texts) + len(x.parts), dtype=np.int64).reshape(x.shape))
        texts += [f.convert(part, x.kind, kind) for part in x.parts]
    places = moved_by(op, numbered, list(map(known, index)), kind in COMPLEX)
    return result(f, op, [texts[int(place)] for place in places.ravel()], kind)


def required_kind(x: Spec) -> str:
    """Return the kind of a number, or of an array's elements. Raises Unlowered for other values."""
    kind = kind_of(x)
    if kind is None:
        raise Unlowered("a value of an unsupported type")
    return kind


def moved_by(op: Call, numbered: Sequence[Any], index: Sequence[Any], of_complex: bool = False) -> Any:
    """Return the position of the input element at each result position, 0 for a zero. Raises Unlowered for a call that
    does not merely move elements: the test is that random numbers, also complex ones, arrive at the same positions.
    """
    places = np.asarray(op.fn.impl(*[x if x.shape else x[()] for x in numbered], *index, **op.kwargs))
    others = np.random.default_rng(0).normal(size=1 + sum(x.size for x in numbered))
    others = others * (1 + 0.5j) if of_complex else others
    others[0] = 0.0
    given = [others[x] for x in numbered]
    found = np.asarray(op.fn.impl(*[x if x.shape else x[()] for x in given], *index, **op.kwargs))
    fits = places.shape == found.shape and np.all((places >= 0) & (places < others.size))
    if not (fits and np.array_equal(found, others[places.astype(np.int64)])):
        raise Unlowered("an operation that does not only move elements")
    return places


def lower_scatter(f: Function, op: Call) -> Value:
    """Emit a scatter: a sum of pieces, zero elsewhere."""
    shape, ranks, at = op.kwargs["shape"], op.kwargs["ranks"], 0
    if op.kwargs.keys() - {"shape", "ranks", "order", "through"} or not f.is_small(op.spec):
        raise Unlowered("a scatter into a large array")
    paths = op.kwargs.get("through", ((),) * len(ranks))
    places, kind = np.arange(math.prod(shape)).reshape(shape), required_kind(op.spec)
    total: list[str | None] = [None] * places.size
    for rank, path in zip(ranks, paths):
        piece, index = op.args[at], op.args[at + 1: at + 1 + rank]
        at += 1 + rank
        if not is_value(f, spec_of(piece)):
            raise Unlowered("a large piece")
        chosen = places
        if path and kind in COMPLEX:
            raise Unlowered("the real or imaginary part of a complex array")
        for step in path:
            chosen = step.op.impl(chosen, *step.args, **step.kwargs)
        chosen = np.asarray(chosen[tuple(map(known, index))])
        x = f.elements(piece)
        for place, text in zip(chosen.ravel().tolist(), stretched(x, chosen.shape)):
            part, now = f.convert(text, x.kind, kind), total[place]
            total[place] = part if now is None else ROWS[ops.add].write(f, [now, part], kind)
    return result(f, op, [f.lanes.constant(0, kind) if text is None else text for text in total], kind)


def lower_constant(f: Function, op: Call) -> Value:
    """Emit an array of zeros, ones, or one number."""
    if not f.is_small(op.spec):
        raise Unlowered("a large constant array")
    kind = required_kind(op.spec)
    x = filling(f, op, kind)
    if not isinstance(x, Number) or (x.kind != kind and (kind not in INEXACT or x.kind in COMPLEX)):
        raise Unlowered("a value of an unsupported type")
    return result(f, op, [f.convert(x.ir, x.kind, kind)] * op.spec.size, kind)


def filling(f: Function, op: Call, kind: str) -> Number | Elements | Array:
    """Return the value that fills a new array."""
    if op.fn in (*ZEROS, *ONES):
        return Number(f.lanes.constant(int(op.fn in ONES), kind), kind)
    if len(op.args) < 2:
        raise Unlowered("a fill value passed by keyword")
    return operand(f, op.args[1])


def lower_reduction(f: Function, op: Call) -> Value:
    """Emit a reduction of a small array."""
    axes = reduced(op, spec_of(op.args[0]).ndim)
    if axes is None or not is_value(f, spec_of(op.args[0])) or not is_value(f, op.spec):
        raise Unlowered("a reduction of a large array, or one that the compiled code does not support")
    given, kind = f.elements(op.args[0]), required_kind(op.spec)
    if not reduces(op.fn, given.kind, kind):
        raise Unlowered("a reduction of an unsupported dtype")
    if not given.parts:
        if op.fn is not ops.sum:
            raise Unlowered("a reduction of no elements")
        return result(f, op, [f.lanes.constant(0, kind)] * (op.spec.size if op.spec.is_array else 1), kind)
    places = np.moveaxis(np.arange(len(given.parts)).reshape(given.shape), axes, range(-len(axes), 0))
    rows = places.reshape(-1, math.prod(given.shape[axis] for axis in axes)).tolist()
    found = []
    for row in rows:
        texts = [f.convert(given.parts[place], given.kind, kind) for place in row]
        if op.fn in (ops.sum, ops.mean):
            text = total(f, texts, kind)
            if op.fn is ops.mean:
                text = over(f, text, len(texts), kind)
            found.append(text)
        else:
            text = texts[0]
            for each in texts[1:]:
                text = ROWS[JOINS[op.fn]].write(f, [text, each], kind)
            found.append(text)
    return result(f, op, found, kind)


def over(f: Function, text: str, count: int, kind: str) -> str:
    """Emit a sum divided by the number of terms; not for integers."""
    if kind not in INEXACT:
        raise Unlowered("a mean of integers")
    return ROWS[ops.divide].write(f, [text, f.lanes.constant(count, kind)], kind)


def total(f: Function, texts: Sequence[str], kind: str) -> str:
    """Emit a sum in NumPy's order: sequentially for less than eight numbers, else in eight partial sums."""
    def add(a: str, b: str) -> str:
        return ROWS[ops.add].write(f, [a, b], kind)
    if not texts:
        return f.lanes.constant(0, kind)
    if len(texts) < 8:
        sums = texts[0]
        for text in texts[1:]:
            sums = add(sums, text)
        return sums
    rows = list(texts[:8])
    whole = len(texts) // 8 * 8
    for start in range(8, whole, 8):
        rows = [add(a, b) for a, b in zip(rows, texts[start:start + 8])]
    sums = add(add(add(rows[0], rows[1]), add(rows[2], rows[3])), add(add(rows[4], rows[5]), add(rows[6], rows[7])))
    for text in texts[whole:]:
        sums = add(sums, text)
    return sums


def lower_product(f: Function, op: Call) -> Value:
    """Emit a product of small arrays: matmul and its kin, dot, vdot."""
    a, b = map(spec_of, op.args[:2])
    if op.kwargs or len(op.args) != 2 or not is_value(f, op.spec) or not a.shape or not b.shape or not all(
            f.is_small(spec_of(x)) or isinstance(f.env.get(x), Elements) for x in op.args):
        raise Unlowered("a product of large arrays")
    x, y = (f.elements(arg) for arg in op.args)
    kind = required_kind(op.spec)
    if kind == "b" or (op.fn in (ops.vdot, ops.vecdot, ops.vecmat) and kind in COMPLEX):
        raise Unlowered("a product of bools, or with a complex conjugate")
    x, y = (Elements(tuple([f.convert(part, each.kind, kind) for part in each.parts]), each.shape, kind)
            for each in (x, y))
    p, q = (np.arange(len(each.parts)).reshape(each.shape) for each in (x, y))
    left: Any
    right: Any
    if op.fn is ops.vdot:
        left, right = p.reshape(1, -1), q.reshape(1, -1)
    elif op.fn is ops.vecdot:
        left, right = np.broadcast_arrays(p, q)
    elif p.ndim == q.ndim == 1:
        left, right = p, q
    elif op.fn in (ops.matmul, ops.dot) and max(p.ndim, q.ndim) <= 2:
        left, right = np.broadcast_arrays(p[..., None, :] if q.ndim > 1 else p, q.T)
    elif op.fn is ops.matvec and p.ndim == 2 and q.ndim == 1:
        left, right = np.broadcast_arrays(p, q)
    elif op.fn is ops.vecmat and p.ndim == 1 and q.ndim == 2:
        left, right = np.broadcast_arrays(p, q.T)
    else:
        raise Unlowered("a product of stacks of matrices")
    if left.size > PRODUCT:
        raise Unlowered("a large product")
    table = math.prod(left.shape[:-1]), left.shape[-1]
    rows = zip(left.reshape(table).tolist(), right.reshape(table).tolist())
    multiply = ROWS[ops.multiply]
    return result(f, op, [total(f, [multiply.write(f, [x.parts[i], y.parts[j]], kind) for i, j in zip(*row)], kind)
                       for row in rows], kind)


for _op in MOVES:
    LOWERINGS[_op] = lower_move
LOWERINGS[ops.scatter] = lower_scatter
LOWERINGS |= dict.fromkeys(NEW, lower_constant)
LOWERINGS |= dict.fromkeys(JOINS, lower_reduction)
LOWERINGS |= dict.fromkeys([ops.matmul, ops.dot, ops.vdot, ops.vecdot, ops.matvec, ops.vecmat], lower_product)


