"""Body: the body of a loop, as lines below the loop's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tapegrad.numbers.formatting import brief, count_of
from tapegrad.show.line import Fields, Line, fields_of, lines, listed
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Operation

WHOLE, HEAD, TAIL = 30, 16, 8  # lines of a body on a terminal
BAR = "| "


class Inner(NamedTuple):
    """A line of a body, and its nesting depth."""

    depth: int
    line: Line

    @property
    def row(self) -> Line:
        """The line as printed among those of the tape: with bars before its variable."""
        return self.line._replace(variable=BAR * self.depth + self.line.variable)


def body(op: Operation, compact: bool = False, fold: bool = False, guards: bool = True) -> list[Inner]:
    """Return the lines of a loop's body, those of nested loops included; empty for other operations. `fold` leaves out
    the middle of a long body; without `guards` they are left out.
    """
    found = list(_body(op, compact, fold, guards, 1)) if carries(op) else []
    width = max((len(inner.row.variable) for inner in found), default=0)
    # align the bars
    return [Inner(depth, line._replace(variable=line.variable.rjust(width - len(BAR) * depth)))
            for depth, line in found]


def _body(op: Any, compact: bool, fold: bool, guards: bool, depth: int) -> Iterator[Inner]:
    tape = op.fn.body
    fields: Fields | None = fields_of(tape) if compact else None
    ops = [inner for inner in listed(tape.ops[1:], fields, guards) if inner is not tape.result]
    roles = inputs(op)
    found: list[Inner] = []
    for inner, line in zip(ops, lines(tape, ops, fields)):
        found.append(Inner(depth, line._replace(operation=roles.get(inner, line.operation))))
        found += _body(inner, compact, fold, guards, depth + 1) if carries(inner) else []
    if fold and len(found) > WHOLE:
        left = Line("constant", "", f"... {count_of(len(found) - HEAD - TAIL, 'operation')} left out ...", "", "", "",
                    "", "")
        found[HEAD:-TAIL] = [Inner(depth, left)]
    yield from found
    yield Inner(depth, Line("primal", "", op.fn.returned(brief), "", "", "", "", ""))


def inputs(op: Any) -> dict[Operation, str]:
    """Return, for each input of a loop's body, the outer value that it stands for and how it varies by run.

    >>> import tapegrad as tg
    >>> def f(x):
    ...     for i in range(100):
    ...         x = x + i * x
    ...     return x
    >>> rolled = tg.roll(tg.trace(f, 1e-9)[1], saved=0)
    >>> list(inputs(rolled[3]).values())
    ['step 0, 1, 2 ... 99', 'carried, first %2']
    """
    return op.fn.roles(map(brief, op.args))  # type: ignore[no-any-return]
