"""table: the table of lowerings of elementwise ops, one row each, for numbers and for vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tapegrad import ops
from tapegrad.compile.native.emit import Emitter
from tapegrad.compile.native.values import COMPLEX, ELEMENTS, FLOATS, INTEGERS, Unlowered, itemsize
from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call

Row = Callable[[Emitter, "list[str]", str], str]


class Lowering(NamedTuple):
    """A row: the code for floats, integers, bools and complex numbers, from arguments of one kind, None if there is
    none; `gives` is the result's kind: "b" for bool, "part" for the real type of complex numbers, "" for the arguments'
    kind.
    """

    floats: Row | None = None
    integers: Row | None = None
    bools: Row | None = None
    complex: Row | None = None
    gives: str = ""

    def of(self, kind: str) -> Row | None:
        """Return the code for numbers of a kind."""
        return (self.floats if kind in FLOATS else self.integers if kind in INTEGERS
                else self.complex if kind in COMPLEX else self.bools)

    def result(self, kind: str) -> str:
        """Return the kind of the result for arguments of a kind."""
        return "b" if self.gives == "b" else ELEMENTS[kind].part or kind if self.gives else kind

    def write(self, emit: Emitter, xs: list[str], kind: str) -> str:
        """Emit a call on numbers of a kind. Raises Unlowered if there is no code."""
        row = self.of(kind)
        if row is None:
            raise Unlowered("an operation that has no code for this dtype")
        return row(emit, xs, kind)


def _instruction(name: str) -> Row:
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        return emit.op(f"{name} {emit.lanes.type(kind)} {', '.join(xs)}")
    return write


def _by_parts(row: Row) -> Row:
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        return emit.by_parts(kind, lambda part, *each: row(emit, list(each), part), *xs)
    return write


def _intrinsic(name: str, end: str = "") -> Row:
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        t, symbol = emit.lanes.type(kind), f"@llvm.{name}.{emit.lanes.suffix(kind)}"
        emit.declare(f"declare {t} {symbol}({', '.join([t] * len(xs))}{', i1' if end else ''})")
        return emit.op(f"call {t} {symbol}({', '.join(f'{t} {x}' for x in xs)}{end})")
    return write


VECTORS = frozenset(["sin", "cos", "tan", "exp", "log", "tanh", "log1p", "expm1", "sinh", "cosh", "atan", "asin",
                     "acos", "erf", "erfc", "exp2", "log2", "log10", "cbrt", "asinh", "acosh", "atanh", "pow", "atan2",
                     "hypot"])
"""The vectorised functions in glibc's libmvec."""


def _library(name: str) -> Row:
    """A function of libm, or of libmvec for vectors, whose symbols encode register size and lanes."""
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        end, bits = "f" if kind == "s" else "", 8 * emit.lanes.width * itemsize(kind)
        if emit.lanes.width > 1 and (not emit.lanes.library or name not in VECTORS or bits not in _REGISTERS):
            raise Unlowered(name)
        t = emit.lanes.type(kind)
        symbol = f"{name}{end}" if emit.lanes.width == 1 \
            else f"_ZGV{_REGISTERS[bits]}N{emit.lanes.width}{'v' * len(xs)}_{name}{end}"
        emit.declare(f"declare {t} @{symbol}({', '.join([t] * len(xs))}) nounwind")
        return emit.op(f"call {t} @{symbol}({', '.join(f'{t} {x}' for x in xs)})")
    return write


_REGISTERS = {512: "e", 256: "d", 128: "b"}


def _extremum(condition: str) -> Row:
    """NumPy's maximum and minimum: a nan wins, of two nans the first, and of equal numbers the second."""
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        t, b = emit.lanes.type(kind), emit.lanes.type("b")
        wins = emit.op(f"fcmp {condition} {t} {xs[0]}, {xs[1]}")
        nan = emit.op(f"fcmp uno {t} {xs[0]}, {xs[0]}")
        return emit.select(emit.op(f"or {b} {wins}, {nan}"), kind, xs[0], xs[1])
    return write


def _sign(emit: Emitter, xs: list[str], kind: str) -> str:
    compare, order = ("fcmp o", "") if kind in FLOATS else ("icmp ", "s")
    t, (one, zero, minus) = emit.lanes.type(kind), (emit.lanes.constant(n, kind) for n in (1, 0, -1))
    above, below = (emit.op(f"{compare}{order}{name} {t} {xs[0]}, {zero}") for name in ("gt", "lt"))
    none = emit.op(f"{compare}eq {t} {xs[0]}, {zero}")
    rest = emit.select(none, kind, zero, xs[0])  # nan
    return emit.select(above, kind, one, emit.select(below, kind, minus, rest))


def _logaddexp(emit: Emitter, xs: list[str], kind: str) -> str:
    """The larger number plus log(1 + exp(-|x - y|)); for two equal infinities a nan with a flag, which bails out."""
    t = emit.lanes.type(kind)
    apart = emit.op(f"fsub {t} {xs[0]}, {xs[1]}")
    above = emit.op(f"fcmp ogt {t} {apart}, {emit.lanes.constant(0.0, kind)}")
    below = emit.op(f"fneg {t} {ROWS[ops.abs].write(emit, [apart], kind)}")
    more = _library("log1p")(emit, [_library("exp")(emit, [below], kind)], kind)
    return emit.op(f"fadd {t} {emit.select(above, kind, *xs)}, {more}")


def _no_nan(fn: Op, other: float) -> Row:
    """A product or quotient that is 0 where its first number is, without a flag: `other` replaces the second there."""
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        none = ROWS[ops.equal].write(emit, [xs[0], emit.lanes.constant(0.0, kind)], kind)
        second = emit.select(none, kind, emit.lanes.constant(other, kind), xs[1])
        return ROWS[fn].write(emit, [xs[0], second], kind)
    return write


def _both_no_nan(emit: Emitter, xs: list[str], kind: str) -> str:
    """A product that is 0 where either factor is 0, without the flag of 0 * inf."""
    zero = emit.lanes.constant(0.0, kind)
    none = ROWS[ops.equal].write(emit, [xs[1], zero], kind)
    return ROWS[ops.multiply_no_nan].write(emit, [emit.select(none, kind, zero, xs[0]), xs[1]], kind)


def _defined(emit: Emitter, xs: list[str], kind: str) -> str:
    """A quotient that is 0 where both numbers are 0."""
    t, zero = emit.lanes.type(kind), emit.lanes.constant(0.0, kind)
    none = [emit.op(f"fcmp oeq {t} {x}, {zero}") for x in xs]
    both = emit.op(f"and {emit.lanes.type('b')} {', '.join(none)}")
    return emit.op(f"fdiv {t} {xs[0]}, {emit.select(both, kind, emit.lanes.constant(1.0, kind), xs[1])}")


def _expit(emit: Emitter, xs: list[str], kind: str) -> str:
    """1 / (1 + exp(-x)), by the exponential of -|x|."""
    t, one = emit.lanes.type(kind), emit.lanes.constant(1.0, kind)
    size = _library("exp")(emit, [emit.op(f"fneg {t} {ROWS[ops.abs].write(emit, xs, kind)}")], kind)
    above = emit.op(f"fcmp oge {t} {xs[0]}, {emit.lanes.constant(0.0, kind)}")
    return emit.op(f"fdiv {t} {emit.select(above, kind, one, size)}, {emit.op(f'fadd {t} {one}, {size}')}")


def _xlogy(emit: Emitter, xs: list[str], kind: str) -> str:
    """x log(y), 0 where x is 0 and y is not nan."""
    t, zero = emit.lanes.type(kind), emit.lanes.constant(0.0, kind)
    none = emit.op(f"fcmp oeq {t} {xs[0]}, {zero}")
    known = emit.op(f"fcmp ord {t} {xs[1]}, {xs[1]}")
    none = emit.op(f"and {emit.lanes.type('b')} {none}, {known}")
    log = _library("log")(emit, [emit.select(none, kind, emit.lanes.constant(1.0, kind), xs[1])], kind)
    return emit.op(f"fmul {t} {xs[0]}, {log}")


def _times(factor: float) -> Row:
    return lambda emit, xs, kind: emit.op(
        f"fmul {emit.lanes.type(kind)} {xs[0]}, {emit.lanes.constant(factor, kind)}")


def _where(emit: Emitter, xs: list[str], kind: str) -> str:
    return emit.select(xs[0], kind, xs[1], xs[2])


def _where_floats(emit: Emitter, xs: list[str], kind: str) -> str:
    """A selection for which both numbers are computed, with the warnings of both."""
    def known(part: str, x: str) -> str:
        return x if emit.lanes.width == 1 or not x.startswith("%") else emit.opaque(x, part, emit.lanes)
    both = [emit.by_parts(kind, known, x) for x in xs[1:]]
    return emit.select(xs[0], kind, *both)


def _same(emit: Emitter, xs: list[str], kind: str) -> str:
    return xs[0]


def _twice(row: Row) -> Row:
    return lambda emit, xs, kind: row(emit, [xs[0], xs[0]], kind)


def _reciprocal(emit: Emitter, xs: list[str], kind: str) -> str:
    return emit.op(f"fdiv {emit.lanes.type(kind)} {emit.lanes.constant(1.0, kind)}, {xs[0]}")


def _negative(emit: Emitter, xs: list[str], kind: str) -> str:
    return emit.op(f"sub {emit.lanes.type(kind)} {emit.lanes.constant(0, kind)}, {xs[0]}")


def _not(emit: Emitter, xs: list[str], kind: str) -> str:
    return emit.op(f"xor {emit.lanes.type(kind)} {xs[0]}, {emit.lanes.constant(True if kind == 'b' else -1, kind)}")


def _finite(condition: str) -> Row:
    """A comparison of |x| with infinity."""
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        size = ROWS[ops.abs].write(emit, xs, kind)
        return emit.op(f"fcmp {condition} {emit.lanes.type(kind)} {size}, {emit.lanes.constant(float('inf'), kind)}")
    return write


def _quotient(name: str) -> Row:
    """The floor quotient of integers, or the remainder; bails out where NumPy warns."""
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        t, b, zero, (x, by) = emit.lanes.type(kind), emit.lanes.type("b"), emit.lanes.constant(0, kind), xs
        low = emit.op(f"icmp ne {t} {x}, {emit.lanes.constant(-1 << 8 * itemsize(kind) - 1, kind)}")
        some, not_minus = (emit.op(f"icmp ne {t} {by}, {emit.lanes.constant(n, kind)}") for n in (0, -1))
        require_all(emit, emit.op(f"and {b} {some}, {emit.op(f'or {b} {low}, {not_minus}')}"))
        whole, rest = emit.op(f"sdiv {t} {x}, {by}"), emit.op(f"srem {t} {x}, {by}")
        apart = emit.op(f"icmp slt {t} {emit.op(f'xor {t} {rest}, {by}')}, {zero}")
        below = emit.op(f"and {b} {apart}, {emit.op(f'icmp ne {t} {rest}, {zero}')}")
        if name == "floor_divide":
            return emit.select(below, kind, emit.op(f"sub {t} {whole}, {emit.lanes.constant(1, kind)}"), whole)
        return emit.select(below, kind, emit.op(f"add {t} {rest}, {by}"), rest)
    return write


def require_all(emit: Emitter, condition: str) -> None:
    """Bail out unless a condition holds for all lanes."""
    if emit.lanes.width > 1:
        name = f"@llvm.vector.reduce.and.v{emit.lanes.width}i1"
        emit.declare(f"declare i1 {name}({emit.lanes.type('b')})")
        condition = emit.op(f"call i1 {name}({emit.lanes.type('b')} {condition})")
    emit.require(condition)


# -- complex numbers, by NumPy's formulas

def _product(emit: Emitter, xs: list[str], kind: str) -> str:
    (a, b), (c, d) = (emit.parts(x, kind) for x in xs)
    t = emit.lanes.type(ELEMENTS[kind].part)
    ac, bd, ad, bc = (emit.op(f"fmul {t} {x}, {y}") for x, y in ((a, c), (b, d), (a, d), (b, c)))
    return emit.complex([emit.op(f"fsub {t} {ac}, {bd}"), emit.op(f"fadd {t} {ad}, {bc}")], kind)


def _ratio(emit: Emitter, xs: list[str], kind: str) -> str:
    """A quotient by Smith's algorithm; division by 0 gives a nan with a flag, which bails out."""
    part = ELEMENTS[kind].part
    (a, b), (c, d), t = *(emit.parts(x, kind) for x in xs), emit.lanes.type(part)
    sizes = [ROWS[ops.abs].write(emit, [x], part) for x in (c, d)]
    real = emit.op(f"fcmp oge {t} {sizes[0]}, {sizes[1]}")
    large, small = emit.select(real, part, c, d), emit.select(real, part, d, c)
    same, other = emit.select(real, part, a, b), emit.select(real, part, b, a)
    ratio = emit.op(f"fdiv {t} {small}, {large}")
    scale = _reciprocal(emit, [emit.op(f"fadd {t} {large}, {emit.op(f'fmul {t} {small}, {ratio}')}")], part)
    first = emit.op(f"fadd {t} {same}, {emit.op(f'fmul {t} {other}, {ratio}')}")
    along = emit.op(f"fmul {t} {same}, {ratio}")
    second = emit.op(f"fsub {t} {emit.select(real, part, other, along)}, {emit.select(real, part, along, other)}")
    return emit.complex([emit.op(f"fmul {t} {x}, {scale}") for x in (first, second)], kind)


def _conjugate(emit: Emitter, xs: list[str], kind: str) -> str:
    a, b = emit.parts(xs[0], kind)
    return emit.complex([a, emit.op(f"fneg {emit.lanes.type(ELEMENTS[kind].part)} {b}")], kind)


def _exponential(emit: Emitter, xs: list[str], kind: str) -> str:
    """exp(a) cos(b) and exp(a) sin(b); b itself if it is 0. An infinite a bails out: 0 * a is a nan with a flag."""
    (a, b), part = emit.parts(xs[0], kind), ELEMENTS[kind].part
    t, none = emit.lanes.type(part), emit.lanes.constant(0, part)
    size, angle = _library("exp")(emit, [a], part), emit.op(f"fadd {t} {b}, {emit.op(f'fmul {t} {a}, {none}')}")
    x, y = (emit.op(f"fmul {t} {size}, {_library(name)(emit, [angle], part)}") for name in ("cos", "sin"))
    return emit.complex([x, emit.select(emit.op(f"fcmp oeq {t} {b}, {none}"), part, b, y)], kind)


def _modulus(emit: Emitter, xs: list[str], kind: str) -> str:
    return _library("hypot")(emit, list(emit.parts(xs[0], kind)), ELEMENTS[kind].part)


def _alike(compare: str, join: str) -> Row:
    def write(emit: Emitter, xs: list[str], kind: str) -> str:
        t, (x, y) = emit.lanes.type(ELEMENTS[kind].part), (emit.parts(x, kind) for x in xs)
        found = [emit.op(f"fcmp {compare} {t} {a}, {b}") for a, b in zip(x, y)]
        return emit.op(f"{join} {emit.lanes.type('b')} {', '.join(found)}")
    return write


SAME = frozenset([ops.positive, ops.copy, ops.conjugate, ops.real, ops.scalar, ops.stop_gradient])
"""Ops that return a real number unchanged."""
_ADD, _SUBTRACT, _COPY = (_by_parts(_instruction("fadd")), _by_parts(_instruction("fsub")),
                          Lowering(_same, _same, _same, _same))


def _compared(name: str, letters: str, complex_: Row | None = None) -> Lowering:
    return Lowering(_instruction(f"fcmp {name}"), _instruction(f"icmp {letters}"), None, complex_, "b")


ROWS: dict[Op, Lowering] = {
    ops.add: Lowering(_ADD, _instruction("add"), _instruction("or"), _ADD),
    ops.subtract: Lowering(_SUBTRACT, _instruction("sub"), None, _SUBTRACT),
    ops.multiply: Lowering(_instruction("fmul"), _instruction("mul"), _instruction("and"), _product),
    **{fn: Lowering(row, complex=row) for fn, row in (
        (ops.multiply_no_nan, _no_nan(ops.multiply, 0.0)), (ops.product_no_nan, _both_no_nan),
        (ops.divide_no_nan, _no_nan(ops.divide, 1.0)))},
    ops.ratio: Lowering(_defined),
    ops.expit: Lowering(_expit), ops.xlogy: Lowering(_xlogy),
    ops.deg2rad: Lowering(_times(math.pi / 180)), ops.rad2deg: Lowering(_times(180 / math.pi)),
    ops.divide: Lowering(_instruction("fdiv"), complex=_ratio),
    ops.negative: Lowering(_instruction("fneg"), _negative, None, _by_parts(_instruction("fneg"))),
    ops.less: _compared("olt", "slt"), ops.less_equal: _compared("ole", "sle"),
    ops.greater: _compared("ogt", "sgt"), ops.greater_equal: _compared("oge", "sge"),
    ops.equal: _compared("oeq", "eq", _alike("oeq", "and")),
    ops.not_equal: _compared("une", "ne", _alike("une", "or")),
    ops.isnan: Lowering(_twice(_instruction("fcmp uno")), gives="b"),
    ops.isinf: Lowering(_finite("oeq"), gives="b"), ops.isfinite: Lowering(_finite("olt"), gives="b"),
    ops.abs: Lowering(_intrinsic("fabs"), _intrinsic("abs", ", i1 false"), None, _modulus, "part"),
    ops.sqrt: Lowering(_intrinsic("sqrt")), ops.copysign: Lowering(_intrinsic("copysign")),
    ops.floor: Lowering(_intrinsic("floor"), _same), ops.ceil: Lowering(_intrinsic("ceil"), _same),
    ops.trunc: Lowering(_intrinsic("trunc"), _same), ops.rint: Lowering(_intrinsic("rint")),
    ops.sign: Lowering(_sign, _sign), ops.logaddexp: Lowering(_logaddexp),
    ops.square: Lowering(_twice(_instruction("fmul")), _twice(_instruction("mul")), None, _twice(_product)),
    ops.reciprocal: Lowering(_reciprocal),
    ops.maximum: Lowering(_extremum("ogt"), _intrinsic("smax")),
    ops.minimum: Lowering(_extremum("olt"), _intrinsic("smin")),
    ops.floor_divide: Lowering(integers=_quotient("floor_divide")), ops.remainder: Lowering(integers=_quotient("rest")),
    **{op: Lowering(integers=_instruction(name), bools=_instruction(name)) for op, name in (
        (ops.bitwise_and, "and"), (ops.bitwise_or, "or"), (ops.bitwise_xor, "xor"))},
    ops.bitwise_invert: Lowering(integers=_not, bools=_not),
    **{op: Lowering(bools=_instruction(name), gives="b") for op, name in (
        (ops.logical_and, "and"), (ops.logical_or, "or"), (ops.logical_xor, "xor"))},
    ops.logical_not: Lowering(bools=_not, gives="b"),
    **dict.fromkeys(SAME, _COPY),
    ops.conjugate: Lowering(_same, _same, None, _conjugate),
    ops.real: Lowering(_same, _same, _same, lambda emit, xs, kind: emit.parts(xs[0], kind)[0], "part"),
    ops.imag: Lowering(complex=lambda emit, xs, kind: emit.parts(xs[0], kind)[1], gives="part"),
    ops.where: Lowering(_where_floats, _where, _where, _where_floats),  # except for the condition
    **{op: Lowering(_library(op.__name__)) for op in (
        ops.sin, ops.cos, ops.tan, ops.asin, ops.acos, ops.atan, ops.sinh, ops.cosh, ops.tanh, ops.asinh, ops.acosh,
        ops.atanh, ops.exp2, ops.expm1, ops.log, ops.log2, ops.log10, ops.log1p, ops.cbrt, ops.erf, ops.erfc,
        ops.atan2, ops.hypot, ops.pow)},
    ops.exp: Lowering(_library("exp"), complex=_exponential),
}
"""The elementwise lowerings. Additions and multiplications are not contracted: results equal NumPy's and Python's, bit
for bit.
"""
JOINS = {ops.sum: ops.add, ops.mean: ops.add, ops.max: ops.maximum, ops.min: ops.minimum, ops.any: ops.logical_or,
         ops.all: ops.logical_and}
"""The op that combines two numbers in a reduction."""


def reduces(fn: Op, x: str | None, y: str | None) -> bool:
    """Return whether a reduction from numbers of kind x to kind y has native code."""
    if x is None or y is None or (x in COMPLEX) != (y in COMPLEX):
        return False
    if fn in (ops.max, ops.min):
        return x == y and y in FLOATS | INTEGERS
    return (y == "b") == (fn in (ops.any, ops.all))


def reduced(op: Call, ndim: int) -> list[int] | None:
    """Return the axes that a call reduces; None if it has further arguments."""
    if op.kwargs.keys() - {"axis", "keepdims"} or len(op.args) != 1:
        return None
    axis = op.kwargs.get("axis")
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return sorted({a % ndim for a in axes}) if ndim else []


BARE = {ops.add: "add", ops.subtract: "sub", ops.multiply: "mul"}
"""LLVM's names of integer operations; on Python integers they bail out beyond 64 bits."""
