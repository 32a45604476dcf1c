"""scans: running sums, products and extremes, and linear recurrences, along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapegrad import ops
from tapegrad.compile.native.arrays import stored
from tapegrad.compile.native.function import LOWERINGS, Function
from tapegrad.compile.native.memory import target, vectors
from tapegrad.compile.native.table import ROWS
from tapegrad.compile.native.values import COMPLEX, FLOATS, INTEGERS, Unlowered, Value, is_small, kind_of
from tapegrad.compile.native.vectors import Operand, nest
from tapegrad.tape.tape import Call

RUNNING = {ops.cumulative_sum: ops.add, ops.cumulative_prod: ops.multiply, ops.cumulative_max: ops.maximum,
           ops.cumulative_min: ops.minimum}
"""The op that combines the result before with the next number."""


def lower_running(f: Function, op: Call) -> Value:
    """Emit a running sum, product, maximum or minimum."""
    vectors(f)
    x, kind, row = stored(f, op.args[0]), kind_of(op.spec), ROWS[RUNNING[op.fn]]
    if len(op.args) != 1 or not x.size or kind is None or kind == "b" or row.of(kind) is None or (
            (x.kind in COMPLEX) != (kind in COMPLEX) or (kind in INTEGERS and x.kind in FLOATS)):
        raise Unlowered("a running reduction that the compiled code does not support")
    made, axis = target(f, op), op.kwargs.get("axis", 0) % len(x.shape)
    first = (1 if op.fn is ops.cumulative_prod else 0) if op.kwargs.get("include_initial") else None
    n, (step, out) = x.shape[axis], (x.strides[axis], made.strides[axis])

    def line(pointers: list[str]) -> None:
        at, to = pointers

        def number(k: str) -> str:
            return f.convert(f.load(x.kind, f.at(at, f.times(k, step))), x.kind, kind)

        def put(k: str, text: str) -> str:
            f.store(kind, text, f.at(to, f.times(k, out)))
            return text
        now = put("0", number("0") if first is None else f.lanes.constant(first, kind))

        def one(k: str, before: list[str]) -> Sequence[str]:
            behind = f.plus(k, "1")
            return [put(behind, row.write(f, [before[0], number(behind if first is None else k)], kind))]
        f.loop(n - (first is None), [(f.lanes.type(kind), now)], one)
    along(f, axis, x.shape, [x.strides, made.strides], [x.data, made.data], line)
    return f.loaded(made) if is_small(op.spec) else made


def lower_recurrence(f: Function, op: Call) -> Value:
    """Emit y[i] = b[i] + a[i] y[i-1], in reverse y[i] = b[i] + a[i+1] y[i+1]."""
    vectors(f)
    a, b = stored(f, op.args[0]), stored(f, op.args[1])
    kind, shape = kind_of(op.spec), op.spec.shape
    if kind is None or {a.kind, b.kind} != {kind} or kind in INTEGERS or kind == "b" or not op.spec.size:
        raise Unlowered("a recurrence that the compiled code does not support")
    made, axis, back = target(f, op), op.kwargs.get("axis", 0) % len(shape), bool(op.kwargs.get("reverse"))
    strides = [Operand.of(x, shape, 0).strides for x in (a, b, made)]
    n, steps = shape[axis], [each[axis] * (-1 if back else 1) for each in strides]

    def line(pointers: list[str]) -> None:
        factors, terms, to = [f.at(pointer, -step * (n - 1)) if back else pointer
                              for pointer, step in zip(pointers, steps)]

        def one(k: str, before: list[str]) -> Sequence[str]:
            at = f.plus(k, "1")
            factor = f.load(kind, f.at(factors, f.times(k if back else at, steps[0])))
            moved = ROWS[ops.multiply].write(f, [factor, before[0]], kind)
            text = ROWS[ops.add].write(f, [f.load(kind, f.at(terms, f.times(at, steps[1]))), moved], kind)
            f.store(kind, text, f.at(to, f.times(at, steps[2])))
            return [text]
        first = f.load(kind, terms)
        f.store(kind, first, to)
        f.loop(n - 1, [(f.lanes.type(kind), first)], one)
    along(f, axis, shape, strides, [a.data, b.data, made.data], line)
    return f.loaded(made) if is_small(op.spec) else made


def along(f: Function, axis: int, shape: Sequence[int], strides: Sequence[Sequence[int]], data: list[str],
          line: Callable[[list[str]], None]) -> None:
    """Emit loops over all axes but one."""
    kept = [each for each in range(len(shape)) if each != axis]
    nest(f, [shape[each] for each in kept], [[steps[each] for each in kept] for steps in strides], data, line)


LOWERINGS.update(dict.fromkeys(RUNNING, lower_running))
LOWERINGS[ops.recurrence] = lower_recurrence
