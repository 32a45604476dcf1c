"""A gradient tape as two columns on a terminal: the primal operations, and beside each what the reverse sweep does for it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text

from tapegrad.errors import ArgumentError
from tapegrad.show import summary
from tapegrad.show.group import sections
from tapegrad.show.line import Fields, Line, count_of, fields_of, heading, joins, lines, reverse_start
from tapegrad.show.match import place
from tapegrad.show.row import brief_row, dots, fit, legend, text
from tapegrad.show.styles import STYLES
from tapegrad.show.table import title
from tapegrad.tape import Call, Input, Operation, Tape, operands

WHOLE, HEAD, TAIL = 200, 30, 15  # primal operations
MOST = 12  # lines of the reverse sweep beside one operation
_NOTE = re.compile(r"(pullback of |accumulate d|d)%(\d+)")


def render(tape: Tape, group: str | None, console: Console, options: ConsoleOptions) -> Iterator[Any]:
    """Yield the two columns, a heading above each line of the program or each call.

    The primal operations read downwards, the reverse sweep upwards: it begins at the bottom, with the seed.
    Raises ArgumentError for a tape without a reverse sweep.
    """
    fields = fields_of(tape)
    forward, beside = align(tape, fields)
    left_out = len(forward) - HEAD - TAIL if len(forward) > WHOLE else 0
    parts = [forward[:HEAD], forward[-TAIL:]] if left_out else [forward]
    shown = [op for part in parts for op in part]
    rows = {op: brief_row(row, aligned=True) for op, row in zip(shown, lines(tape, shown, fields, values=True))}
    cut = {op: _cut(beside[op]) for op in shown}
    swept = [op for ops in cut.values() for op in ops if isinstance(op, Operation)]
    rows |= {op: brief_row(row, aligned=True) for op, row in zip(swept, lines(tape, swept, fields, values=True))}
    half = (options.max_width - 3) // 2
    without = ("line", "source", *(("note",) if half < 36 else ()))
    sizes = fit([rows[op] for op in shown], half, without), fit([rows[op] for op in swept], options.max_width - 3 - half, without)
    yield Text(heading(tape), STYLES["title"])
    down, up = ("v", "^") if options.ascii_only else ("↓", "↑")
    yield _beside(Text(f"forward {down}", STYLES["header"]), Text(f"reverse sweep {up}", STYLES["header"]), half, options)
    yield from _part(parts[0], cut, rows, sizes, group, half, options)
    if left_out:
        yield Text(f"{dots(options.ascii_only)} {count_of(left_out, 'operation')} of {len(forward):,} left out, with their reverse sweep"
                   f" {dots(options.ascii_only)}", STYLES["rule"])
        yield from _part(parts[1], cut, rows, sizes, group, half, options)
        yield Text("")
        yield summary.sheet(tape)
    yield Text("")
    yield legend((row.role for row in rows.values()), options.ascii_only)


def align(tape: Tape, fields: Fields) -> tuple[list[Operation], dict[Operation, list[Operation]]]:
    """Return the primal operations, and what the reverse sweep does for each, both in the tape's order.

    On a tape of triples notes tell; on a flat one the place in the program, which a primal call shares with what its pullback dissolved
    into, and `d%4`, one of its arguments. Where a place ran often, the sweep meets its calls from the last to the first.
    """
    start = reverse_start(tape)
    if start == len(tape):
        raise ArgumentError(f"the tape of {tape.name or 'nothing'} has no reverse sweep to show beside it",
                            try_="tg.gradtape(f, *args).show('mirror'), or tape.show('tree')")
    joined = joins(fields)
    forward = [op for op in tape.ops[:start] if op not in joined]
    beside: dict[Operation, list[Operation]] = {op: [] for op in forward}
    owners = _Owners(tape, forward, fields)
    for op in tape.ops[start:]:
        if op not in joined:
            beside[owners.of(op)].append(op)
    return forward, beside


class _Owners:
    """Finds, in the order of the sweep, the primal operation that each of its operations is for."""

    def __init__(self, tape: Tape, forward: list[Operation], fields: Fields) -> None:
        self.tape, self.forward = tape, forward
        self.row = {op: i for i, op in enumerate(forward)}
        self.row |= {field: self.row[of] for of, group in fields.items() if of in self.row for field in group}
        self.users: dict[Any, list[int]] = defaultdict(list)  # by place and argument: the rows, those still to come
        for i, op in enumerate(forward):
            for used in operands(op):
                self.users[place(op), used.id].append(i)
        self.inputs = {x.label or x.name: i for i, x in enumerate(forward) if isinstance(x, Input)}
        result = tape.result
        y = result.args[0] if isinstance(result, Call) and result.args else None
        self.at = self.row.get(y, len(forward) - 1) if isinstance(y, Operation) else len(forward) - 1
        self.argument = 0  # of the operation at this row: those before it are done with
        self.summed = False  # this one, too

    def of(self, op: Operation) -> Operation:
        """Return the primal operation that one of the reverse sweep is for."""
        match = _NOTE.match(op.note)
        if op.note.startswith("gradient of "):
            return self.forward[self.inputs.get(op.note[len("gradient of "):], 0)]
        if match is None and op.note != "seed" and op.code is None:
            return self.forward[0]  # the result
        if match is not None and int(match[2]) <= len(self.tape):
            number = int(match[2])
            if match[1] == "pullback of ":
                self.move(self.row.get(self.tape[number], self.at))
            elif place(op) is not None:
                self.contribution(place(op), number, match[1] == "accumulate d")
        return self.forward[self.at]

    def contribution(self, where: Any, number: int, last: bool) -> None:
        """Go to the call at a place that has the argument `%number`: this one, if it is still to come there, or one before it.

        A contribution ends with its accumulation.
        """
        argument = self.find(number) if where == place(self.forward[self.at]) else None
        if argument is None:
            rows = self.users.get((where, number), [])
            while rows and rows[-1] >= self.at:
                rows.pop()
            if not rows:
                return
            self.move(rows[-1])
            argument = self.find(number)
        self.argument, self.summed = argument or 0, last

    def find(self, number: int) -> int | None:
        """Return the position of an argument that is not done with."""
        here = [used.id for used in operands(self.forward[self.at])]
        start = self.argument + self.summed
        return here.index(number, start) if number in here[start:] else None

    def move(self, row: int) -> None:
        """Go to another row."""
        if row != self.at:
            self.at, self.argument, self.summed = row, 0, False


def _cut(ops: list[Operation]) -> list[Operation | int]:
    """Return what is shown of the sweep's operations beside one, last first; a number in place of those left out."""
    if len(ops) > MOST:
        return [*reversed(ops[-(MOST // 2):]), len(ops) - MOST + 1, *reversed(ops[:MOST // 2 - 1])]
    return list(reversed(ops))


def _part(ops: list[Operation], cut: dict[Operation, list[Operation | int]], rows: dict[Operation, Line], sizes: tuple[dict[str, int], dict[str, int]],
          group: str | None, half: int, options: ConsoleOptions) -> Iterator[Text]:
    """Yield rows of the two columns: an operation stands beside the first that the sweep does for it, the lowest."""
    ascii_only = options.ascii_only
    for found, members in sections(ops, group) if group else [(None, ops)]:
        if found is not None and found.where is not None and group:
            yield title(found, group, options)
        for op in members:
            for swept in cut[op] or [None]:
                left = text(rows[op], sizes[0], ascii_only) if swept is None or swept is cut[op][-1] else Text()
                right = Text() if swept is None else Text(f"{dots(ascii_only)} {count_of(swept, 'operation')}", STYLES["rule"]) \
                    if isinstance(swept, int) else text(rows[swept], sizes[1], ascii_only)
                yield _beside(left, right, half, options)


def _beside(left: Text, right: Text, half: int, options: ConsoleOptions) -> Text:
    """Return two texts in one line, a rule between them."""
    line = Text(no_wrap=True, overflow="crop").append_text(left)
    line.append(" " * (half - len(left)))
    line.append(" | " if options.ascii_only else " │ ", STYLES["rule"])
    line.append_text(right)
    line.rstrip()
    return line
