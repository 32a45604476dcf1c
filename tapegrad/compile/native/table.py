"""table: how an elementwise op is computed, one row each: of numbers, and of vectors of them alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tapegrad import ops
from tapegrad.compile.native.emit import Emitter, Lanes
from tapegrad.compile.native.values import Unlowered
from tapegrad.rules.op import Op

Row = Callable[[Emitter, Lanes, "list[str]"], str]


class Lowering(NamedTuple):
    """A row: how values come of the texts of arguments, the kind of the arguments ("*": any, one for all), and of the
    result ("" for the arguments').
    """

    write: Row
    takes: str = "f"
    gives: str = ""


def _instruction(name: str, takes: str = "f", gives: str = "") -> Lowering:
    def write(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
        return emit.op(f"{name} {lanes.type(takes)} {', '.join(xs)}")
    return Lowering(write, takes, gives)


def _intrinsic(name: str) -> Lowering:
    def write(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
        t = lanes.type("f")
        emit.declare(f"declare {t} @llvm.{name}.{lanes.suffix}({', '.join([t] * len(xs))})")
        return emit.op(f"call {t} @llvm.{name}.{lanes.suffix}({', '.join(f'{t} {x}' for x in xs)})")
    return Lowering(write)


VECTORS = frozenset(["sin", "cos", "tan", "exp", "log", "tanh", "log1p", "expm1", "sinh", "cosh", "atan", "asin",
                     "acos", "erf", "erfc", "exp2", "log2", "log10", "cbrt", "asinh", "acosh", "atanh", "pow", "atan2",
                     "hypot"])
"""What glibc's libmvec has of eight or four numbers at once."""


def _library(name: str) -> Lowering:
    """A function of libm, of vectors libmvec's."""
    def write(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
        if lanes.width > 1 and (not lanes.prefix or name not in VECTORS):
            raise Unlowered(name)
        t = lanes.type("f")
        symbol = name if lanes.width == 1 else f"{lanes.prefix}{'v' * len(xs)}_{name}"
        emit.declare(f"declare {t} @{symbol}({', '.join([t] * len(xs))}) nounwind")
        return emit.op(f"call {t} @{symbol}({', '.join(f'{t} {x}' for x in xs)})")
    return Lowering(write)


def _extremum(condition: str) -> Lowering:
    """NumPy's maximum and minimum: a nan wins, the first of two, and of equal numbers the second."""
    def write(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
        t, b = lanes.type("f"), lanes.type("b")
        wins = emit.op(f"fcmp {condition} {t} {xs[0]}, {xs[1]}")
        nan = emit.op(f"fcmp uno {t} {xs[0]}, {xs[0]}")
        first = emit.op(f"or {b} {wins}, {nan}")
        return emit.op(f"select {b} {first}, {t} {xs[0]}, {t} {xs[1]}")
    return Lowering(write)


def _apart(emit: Emitter, lanes: Lanes, x: str) -> str:
    """Return a vector that LLVM knows nothing of: it would compute only the numbers that a mask chooses, and a number
    that is not chosen has its warning too.
    """
    if lanes.width == 1 or not x.startswith("%"):
        return x
    t = lanes.type("f")
    return emit.op(f'call {t} asm "", "={"v" if lanes.width == 8 else "x"},0"({t} {x})')


def _where(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
    xs = [xs[0], *(_apart(emit, lanes, x) for x in xs[1:])]
    return emit.op(f"select {lanes.type('b')} {xs[0]}, {lanes.type('f')} {xs[1]}, {lanes.type('f')} {xs[2]}")


def _square(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
    return emit.op(f"fmul {lanes.type('f')} {xs[0]}, {xs[0]}")


def _reciprocal(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
    return emit.op(f"fdiv {lanes.type('f')} {lanes.constant(1.0)}, {xs[0]}")


def _same(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
    return xs[0]


def _not(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
    return emit.op(f"xor {lanes.type('b')} {xs[0]}, {lanes.constant(True, 'b')}")


def _finite(condition: str) -> Lowering:
    """A question about |x| and infinity."""
    def write(emit: Emitter, lanes: Lanes, xs: list[str]) -> str:
        size = ROWS[ops.abs].write(emit, lanes, xs)
        return emit.op(f"fcmp {condition} {lanes.type('f')} {size}, {lanes.constant(float('inf'))}")
    return Lowering(write, "f", "b")


SAME = frozenset([ops.positive, ops.copy, ops.conjugate, ops.real, ops.scalar, ops.stop_gradient])
"""Ops that return a real number as it is."""
ROWS: dict[Op, Lowering] = {
    ops.add: _instruction("fadd"), ops.subtract: _instruction("fsub"), ops.multiply: _instruction("fmul"),
    ops.divide: _instruction("fdiv"), ops.negative: _instruction("fneg"),
    ops.less: _instruction("fcmp olt", gives="b"), ops.less_equal: _instruction("fcmp ole", gives="b"),
    ops.greater: _instruction("fcmp ogt", gives="b"), ops.greater_equal: _instruction("fcmp oge", gives="b"),
    ops.equal: _instruction("fcmp oeq", gives="b"), ops.not_equal: _instruction("fcmp une", gives="b"),
    ops.isnan: Lowering(lambda emit, lanes, xs: emit.op(f"fcmp uno {lanes.type('f')} {xs[0]}, {xs[0]}"), "f", "b"),
    ops.abs: _intrinsic("fabs"), ops.sqrt: _intrinsic("sqrt"), ops.copysign: _intrinsic("copysign"),
    ops.square: Lowering(_square), ops.reciprocal: Lowering(_reciprocal),
    ops.maximum: _extremum("ogt"), ops.minimum: _extremum("olt"),
    ops.logical_and: _instruction("and", "b"), ops.logical_or: _instruction("or", "b"),
    ops.logical_xor: _instruction("xor", "b"), ops.logical_not: Lowering(_not, "b"),
    **{op: Lowering(_same) for op in SAME},
    **{op: _library(op.__name__) for op in (
        ops.sin, ops.cos, ops.tan, ops.asin, ops.acos, ops.atan, ops.sinh, ops.cosh, ops.tanh, ops.asinh, ops.acosh,
        ops.atanh, ops.exp, ops.exp2, ops.expm1, ops.log, ops.log2, ops.log10, ops.log1p, ops.cbrt, ops.erf, ops.erfc,
        ops.atan2, ops.hypot, ops.pow)},
}
"""What is computed element by element. Additions and multiplications are not contracted: arithmetic is NumPy's and
Python's, bit for bit.
"""
ROWS[ops.isinf], ROWS[ops.isfinite] = _finite("oeq"), _finite("olt")
ROWS[ops.where] = Lowering(_where, "f")  # but for the condition
BARE = {ops.add: "add", ops.subtract: "sub", ops.multiply: "mul"}
"""LLVM's names of what is computed of Python's integers, which leaves where they do not fit 64 bits."""
ORDERS = {ops.less: "slt", ops.less_equal: "sle", ops.greater: "sgt", ops.greater_equal: "sge", ops.equal: "eq",
          ops.not_equal: "ne"}
