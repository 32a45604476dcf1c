"""elementwise: calls that compute element by element, on numbers and small arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.emit import literal
from tapegrad.compile.native.function import LOWERINGS, Function
from tapegrad.compile.native.machine import machine
from tapegrad.compile.native.table import BARE, ORDERS, ROWS, SAME, VECTORS, Lowering
from tapegrad.compile.native.values import Elements, Number, Unlowered, Value, element_kind, is_small, number_kind
from tapegrad.rules.op import Op
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call

MANY = 4  # numbers, from which on a function of vectors is faster than as many calls


def lower_elementwise(f: Function, op: Call) -> Value:
    """Write a call whose value is a number or a small array."""
    y = op.spec
    kind = number_kind(y) or (element_kind(y) if is_small(y) else None)
    if kind is None or not fits(op):
        raise Unlowered("of another type")
    if kind == "i":
        return integer(f, op)
    if op.fn in ORDERS and all(spec_of(arg).type is int for arg in op.args):
        a, b = map(f.number, op.args)
        return Number(f.op(f"icmp {ORDERS[op.fn]} i64 {a.ir}, {b.ir}"), "b")
    if op.fn in ORDERS and any(spec_of(arg).type is int and type(arg) is not int for arg in op.args):
        raise Unlowered("an integer beside a float, which Python compares exactly")
    given = [f.elements(arg) for arg in op.args[:arity(op.fn)]]
    texts = [stretched(x, y.shape) for x in given]
    parts = computed(f, op, [x.kind for x in given], list(zip(*texts)))
    return Number(parts[0], kind) if number_kind(y) else Elements(tuple(parts), y.shape, kind)


def fits(op: Call) -> bool:
    """True for a call that the table speaks of: what its keyword arguments say follows from the result's type."""
    kind, row = number_kind(op.spec) or element_kind(op.spec), row_of(op.fn)
    return op.kwargs.keys() <= {"dtype", "order", "copy"} and (kind == "i" or kind == (row.gives or row.takes))


def row_of(fn: Op) -> Lowering:
    """Return the row of an op; a change of type to float64 is none to a float64."""
    return ROWS[ops.positive if fn is ops.astype else fn]


def arity(fn: Op) -> int:
    """The number of arguments that are numbers."""
    return 1 if fn in SAME or fn is ops.astype else 3


def stretched(x: Elements, shape: tuple[int, ...]) -> list[str]:
    """Return the elements of a small array that is broadcast to a shape."""
    if x.shape == shape:
        return list(x.parts)
    places = np.broadcast_to(np.arange(len(x.parts)).reshape(x.shape), shape)
    return [x.parts[place] for place in places.ravel().tolist()]


def converted(f: Function, ir: str, kind: str, wanted: str) -> str:
    """Return a number as one of another kind: a float64, or whether it is not 0."""
    if wanted == "f":
        return f.to_float(ir, kind)
    if kind == "b":
        return ir
    return f.op(f"{'fcmp une' if kind == 'f' else 'icmp ne'} {f.lanes.type(kind)} {ir}, {f.lanes.constant(0, kind)}")


def computed(f: Function, op: Call, kinds: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Write a call for each of some rows of arguments."""
    row, wanted = row_of(op.fn), [row_of(op.fn).takes] * len(kinds)
    if op.fn is ops.where:
        wanted[0] = "b"
    memory: dict[tuple[str, str], str] = {}

    def convert(ir: str, kind: str, to: str) -> str:
        if (ir, to) not in memory:
            memory[ir, to] = converted(f, ir, kind, to)
        return memory[ir, to]
    columns = [[convert(ir, kind, to) for ir, kind, to in zip(texts, kinds, wanted)] for texts in rows]
    if op.fn is ops.pow:
        return [power(f, op, *texts) for texts in columns]
    if op.fn is ops.divide and op.spec.is_python:
        for texts in columns:  # Python divides nothing by 0, not even inf
            if not texts[1].startswith("0x") or texts[1] == literal(0.0, "f"):
                f.require(f.op(f"fcmp une double {texts[1]}, {literal(0.0, 'f')}"))
    if op.fn.__name__ in VECTORS and len(columns) >= MANY and f.lanes.width == 1 and machine().lanes.prefix:
        return in_vectors(f, row, columns)
    return [row.write(f, f.lanes, texts) for texts in columns]


def power(f: Function, op: Call, x: str, y: str) -> str:
    """Write a power: a small one as NumPy and Python do."""
    exponent = op.args[1]
    if type(exponent) in (int, float):
        if exponent == 2:
            return ROWS[ops.square].write(f, f.lanes, [x])
        if op.spec.is_memory and exponent in (1, 0.5):
            return x if exponent == 1 else ROWS[ops.sqrt].write(f, f.lanes, [x])
    if op.spec.is_python and not (type(exponent) in (int, float) and exponent >= 0):
        zero = literal(0.0, "f")
        some, up = f.op(f"fcmp une double {x}, {zero}"), f.op(f"fcmp oge double {y}, {zero}")
        f.require(f.op(f"or i1 {some}, {up}"))
    return ROWS[ops.pow].write(f, f.lanes, [x, y])


def in_vectors(f: Function, row: Lowering, columns: Sequence[Sequence[str]]) -> list[str]:
    """Write calls of a function of vectors; the last vector repeats its last number."""
    lanes, found = machine().lanes, list[str]()
    t = lanes.type("f")
    for start in range(0, len(columns), lanes.width):
        chosen = [columns[min(start + k, len(columns) - 1)] for k in range(lanes.width)]
        packed = []
        for texts in zip(*chosen):
            vector = "poison"
            for k, text in enumerate(texts):
                vector = f.op(f"insertelement {t} {vector}, double {text}, i32 {k}")
            packed.append(vector)
        made = row.write(f, lanes, packed)
        found += [f.op(f"extractelement {t} {made}, i32 {k}")
                  for k in range(min(lanes.width, len(columns) - start))]
    return found


def integer(f: Function, op: Call) -> Number:
    """Write arithmetic of Python's integers; leave where it does not fit 64 bits."""
    if any(spec_of(arg).type is not int for arg in op.args) or op.fn not in (*BARE, ops.negative):
        raise Unlowered("integers")
    a, b = (f.number(op.args[0]).ir, f.number(op.args[1]).ir) if op.fn in BARE else ("0", f.number(op.args[0]).ir)
    name = f"llvm.s{BARE.get(op.fn, 'sub')}.with.overflow.i64"
    f.declare(f"declare {{ i64, i1 }} @{name}(i64, i64)")
    both = f.op(f"call {{ i64, i1 }} @{name}(i64 {a}, i64 {b})")
    f.require(f.op(f"xor i1 true, {f.op(f'extractvalue {{ i64, i1 }} {both}, 1')}"))
    return Number(f.op(f"extractvalue {{ i64, i1 }} {both}, 0"), "i")


for _op in (*ROWS, ops.astype):
    LOWERINGS[_op] = lower_elementwise
