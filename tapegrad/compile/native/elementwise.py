"""elementwise: elementwise calls on numbers and small arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.emit import literal, written
from tapegrad.compile.native.function import LOWERINGS, Function
from tapegrad.compile.native.table import BARE, ROWS, SAME, VECTORS, Lowering
from tapegrad.compile.native.values import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    KINDS,
    Elements,
    Number,
    Unlowered,
    Value,
    element_kind,
    kind_of,
    number_kind,
)
from tapegrad.rules.op import Op
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call

MANY = 4  # numbers from which a vectorised function is faster than scalar calls


def lower_elementwise(f: Function, op: Call) -> Value:
    """Emit a call whose value is a number or a small array."""
    y = op.spec
    kind, at = number_kind(y) or (element_kind(y) if f.is_small(y) else None), computing_kind(op)
    if kind is None or at is None or y.type is complex:
        raise Unlowered("a value of an unsupported type")
    if number_kind(y) and kind in INTEGERS and not f.lanes.batch:
        return integer(f, op)
    if row_of(op.fn).gives == "b" and at in FLOATS and any(
            spec_of(arg).type is int and type(arg) is not int for arg in op.args):
        raise Unlowered("an integer compared with a float, which Python does exactly")
    given = [f.elements(arg) for arg in op.args[:arity(op.fn)]]
    texts = [stretched(x, y.shape) for x in given]
    parts = computed(f, op, at, [x.kind for x in given], list(zip(*texts)))
    return Number(parts[0], kind) if number_kind(y) else Elements(tuple(parts), y.shape, kind)


def computing_kind(op: Call) -> str | None:
    """Return the kind of number in which a call computes, None if it has no native code.

    It is the kind of the result, unless that is a bool or a part of a complex number: then NumPy's promotion of the
    arguments decides, in which Python numbers are weak.
    """
    row, y, args = row_of(op.fn), op.spec, op.args[:arity(op.fn)]
    kind: str | None = kind_of(y)
    specs = [spec_of(x) for x in args]
    if kind is None or op.kwargs.keys() - {"dtype", "order", "copy"} or (row.gives and "dtype" in op.kwargs):
        return None
    if any(kind_of(x) is None for x in specs):
        return None
    if row.gives and not (row.bools and row.gives == "b"):
        kind = KINDS.get(np.result_type(*[x.type(1) if x.is_python else x.dtype for x in specs]))
    if kind is None or row.of(kind) is None or (
            op.fn is ops.where and kind_of(specs[0]) != "b"):
        return None
    if any(kind_of(x) in COMPLEX for x in specs) and kind not in COMPLEX:
        return None
    fits = np.iinfo(np.int32)
    if kind == "j" and any((type(x) is int and not fits.min <= x <= fits.max) or (type(x) is not int
                           and spec_of(x).type is int) for x in args):
        return None
    return kind if row.result(kind) == kind_of(y) else None


def row_of(fn: Op) -> Lowering:
    """Return the lowering of an op; `astype` to the same kind is `positive`."""
    return ROWS[ops.positive if fn is ops.astype else fn]


def arity(fn: Op) -> int:
    """Return the maximal number of numeric arguments."""
    return 1 if fn in SAME or fn is ops.astype else 3


def stretched(x: Elements, shape: tuple[int, ...]) -> list[str]:
    """Return the elements of a small array broadcast to a shape."""
    if x.shape == shape:
        return list(x.parts)
    places = np.broadcast_to(np.arange(len(x.parts)).reshape(x.shape), shape)
    return [x.parts[place] for place in places.ravel().tolist()]


def computed(f: Function, op: Call, kind: str, kinds: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Emit a call once for each row of arguments."""
    row, wanted = row_of(op.fn), [kind] * len(kinds)
    if op.fn is ops.where:
        wanted[0] = "b"
    memory: dict[tuple[str, str], str] = {}

    def convert(ir: str, kind: str, to: str) -> str:
        if (ir, to) not in memory:
            memory[ir, to] = f.convert(ir, kind, to)
        return memory[ir, to]
    columns = [[convert(ir, kind, to) for ir, kind, to in zip(texts, kinds, wanted)] for texts in rows]
    if op.fn is ops.pow:
        return [power(f, op, kind, *texts) for texts in columns]
    if op.fn is ops.divide and op.spec.is_python:
        for texts in columns:  # Python raises for division by 0, even of inf
            if not written(texts[1]):
                f.require(f.op(f"fcmp une double {texts[1]}, {literal(0.0, 'f')}"))
    if op.fn.__name__ in VECTORS and kind in FLOATS and len(columns) >= MANY and not f.lanes.batch \
            and f.target.lanes.library:
        return in_vectors(f, row, columns, kind)
    return [row.write(f, texts, kind) for texts in columns]


def power(f: Function, op: Call, kind: str, x: str, y: str) -> str:
    """Emit a power; special exponents (2, 1, 0.5) as NumPy and Python compute them."""
    exponent = op.args[1]
    if type(exponent) in (int, float):
        if exponent == 2:
            return ROWS[ops.square].write(f, [x], kind)
        if op.spec.is_memory and exponent in (1, 0.5):
            return x if exponent == 1 else ROWS[ops.sqrt].write(f, [x], kind)
    if op.spec.is_python and not (type(exponent) in (int, float) and exponent >= 0):
        zero = literal(0.0, "f")
        some, up = f.op(f"fcmp une double {x}, {zero}"), f.op(f"fcmp oge double {y}, {zero}")
        f.require(f.op(f"or i1 {some}, {up}"))
    return ROWS[ops.pow].write(f, [x, y], kind)


def in_vectors(f: Function, row: Lowering, columns: Sequence[Sequence[str]], kind: str) -> list[str]:
    """Emit calls of a vectorised function; the last vector is padded with its last number."""
    lanes, found = f.target.lanes.wide(kind), list[str]()
    t, register = lanes.type(kind), f.lanes.type(kind)
    for start in range(0, len(columns), lanes.width):
        chosen = [columns[min(start + k, len(columns) - 1)] for k in range(lanes.width)]
        packed = []
        for texts in zip(*chosen):
            vector = "poison"
            for k, text in enumerate(texts):
                vector = f.op(f"insertelement {t} {vector}, {register} {text}, i32 {k}")
            packed.append(vector)
        with f.computing(lanes):
            made = row.write(f, packed, kind)
        found += [f.op(f"extractelement {t} {made}, i32 {k}")
                  for k in range(min(lanes.width, len(columns) - start))]
    return found


def integer(f: Function, op: Call) -> Number:
    """Emit arithmetic on integers, Python's or NumPy scalars; bail out on overflow."""
    kind: Any = number_kind(op.spec)
    if any(number_kind(spec_of(arg)) != kind for arg in op.args) or op.fn not in (*BARE, ops.negative, *SAME):
        raise Unlowered("integer arithmetic that the compiled code does not support")
    if op.fn in SAME:
        return f.number(op.args[0])
    a, b = (f.number(op.args[0]).ir, f.number(op.args[1]).ir) if op.fn in BARE else ("0", f.number(op.args[0]).ir)
    t = f.lanes.type(kind)
    name = f"llvm.s{BARE.get(op.fn, 'sub')}.with.overflow.{t}"
    f.declare(f"declare {{ {t}, i1 }} @{name}({t}, {t})")
    both = f.op(f"call {{ {t}, i1 }} @{name}({t} {a}, {t} {b})")
    f.require(f.op(f"xor i1 true, {f.op(f'extractvalue {{ {t}, i1 }} {both}, 1')}"))
    return Number(f.op(f"extractvalue {{ {t}, i1 }} {both}, 0"), kind)


for _op in (*ROWS, ops.astype):
    LOWERINGS[_op] = lower_elementwise
