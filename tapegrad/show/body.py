"""Body: what a loop runs again and again, as lines below the loop's own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from tapegrad.numbers.formatting import brief
from tapegrad.ops.checkpoint import Checkpoint, is_checkpoint
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.ops.steps import Steps
from tapegrad.show.line import Fields, Line, count_of, fields_of, joins, lines
from tapegrad.tape.tape import Call, Input, Operation

WHOLE, HEAD, TAIL = 30, 16, 8  # lines of a body on a terminal
BAR = "| "
FIRST = 3  # runs of which is said what they get, and the last


class Inner(NamedTuple):
    """A line of a body, and how deep it stands."""

    depth: int
    line: Line

    @property
    def row(self) -> Line:
        """The line among those of the tape: its variable behind a bar."""
        return self.line._replace(variable=BAR * self.depth + self.line.variable)


def body(op: Operation, compact: bool = False, fold: bool = False) -> list[Inner]:
    """Return the lines of a loop's body, those of the loops in it below theirs; none for what is no loop.

    `fold` leaves out the middle of a long one.
    """
    found = list(_body(op, compact, fold, 1)) if _carries(op) else []
    width = max((len(inner.row.variable) for inner in found), default=0)
    # the bars below each other
    return [Inner(depth, line._replace(variable=line.variable.rjust(width - len(BAR) * depth))) for depth, line in found]


def _carries(op: Operation) -> bool:
    return is_loop(op) or is_checkpoint(op) or (type(op) is Call and type(op.fn) is Steps)


def _body(op: Any, compact: bool, fold: bool, depth: int) -> Iterator[Inner]:
    tape = op.fn.body
    fields: Fields | None = fields_of(tape) if compact else None
    ops = [inner for inner in tape.ops[1:] if inner not in joins(fields) and inner is not tape.result]
    roles = inputs(op)
    found: list[Inner] = []
    for inner, line in zip(ops, lines(tape, ops, fields)):
        found.append(Inner(depth, line._replace(operation=roles.get(inner, line.operation))))
        found += _body(inner, compact, fold, depth + 1) if _carries(inner) else []
    if fold and len(found) > WHOLE:
        left = Line("constant", "", f"... {count_of(len(found) - HEAD - TAIL, 'operation')} left out ...", "", "", "", "", "")
        found[HEAD:-TAIL] = [Inner(depth, left)]
    yield from found
    yield Inner(depth, Line("primal", "", results(op.fn), "", "", "", "", ""))


def inputs(op: Any) -> dict[Operation, str]:
    """Return what each input of a loop's body is: what stands for it outside, and in which run it is what.

    >>> import tapegrad as tg
    >>> def f(x):
    ...     for i in range(100):
    ...         x = x + i * x
    ...     return x
    >>> rolled = tg.roll(tg.trace(f, 1e-9)[1], saved=0)
    >>> list(inputs(rolled[3]).values())
    ['step 0, 1, 2 ... 99', 'carried, first %2']
    """
    loop: Loop = op.fn.loop if type(op.fn) is Steps else op.fn
    args = iter(map(brief, op.args))
    if is_checkpoint(op):
        return {x: _labelled("given", x, next(args)) for x in op.fn.body.inputs[1:]}
    steps, given, listed, carried = loop.parts()
    found: dict[Operation, str] = {x: f"step {_each([values[k] for k in loop.runs])}" for x, values in zip(steps, loop.steps)}
    found |= {x: _labelled("given", x, next(args)) for x in given}
    found |= {x: f"element {_each(loop.runs)} of {next(args)}" for x in listed}
    return found | {x: f"carried, first {next(args)}" for x in carried}


def _labelled(role: str, x: Input, what: str) -> str:
    return f"{role} {what}" + (f" ({x.label})" if x.label and not x.label.startswith("d%") else "")


def _each(values: Any) -> str:
    """Write the first values and the last one, or the one that all are.

    >>> _each(range(9, -1, -1)), _each([2.0, 2.0]), _each([0.1 * i for i in range(4)])
    ('9, 8, 7 ... 0', '2.0', '0.0, 0.1, 0.2, 0.3')
    """
    if all(a == b for a, b in pairwise(values)):
        return _number(values[0])
    if len(values) <= FIRST + 1:
        return ", ".join(map(_number, values))
    return f"{', '.join(map(_number, values[:FIRST]))} ... {_number(values[-1])}"


def _number(x: Any) -> str:
    return brief(float(f"{x:.6g}")) if type(x) is float else brief(x)


def results(loop: Any) -> str:
    """Write what a run hands on to the next, and what is collected from each; what a checkpoint's body returns."""
    loop = loop.loop if type(loop) is Steps else loop
    if type(loop) is Checkpoint:
        return f"return {', '.join(map(brief, loop.results))}"
    carried = loop.sizes[3]
    parts = [f"{name} {', '.join(map(brief, found))}" for name, found in
             (("hand on", loop.results[:carried]), ("collect", loop.results[carried:])) if found]
    return "; ".join(parts)
