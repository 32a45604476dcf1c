"""A gradient tape as two columns on a terminal: the primal operations, and beside each its part of the reverse sweep.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions
from rich.text import Text

from tapegrad.numbers.formatting import count_of
from tapegrad.show import summary
from tapegrad.show.align import align
from tapegrad.show.assigned import assigned
from tapegrad.show.group import sections
from tapegrad.show.line import Fields, Line, fields_of, heading, lines
from tapegrad.show.row import brief_row, fit, legend, text
from tapegrad.show.styles import STYLES, dots
from tapegrad.show.table import title
from tapegrad.tape.tape import Operation, Tape

WHOLE, HEAD, TAIL = 200, 30, 15  # primal operations
MOST = 12  # lines of the reverse sweep beside one operation


def render(tape: Tape, group: str, console: Console, options: ConsoleOptions, guards: bool = True) -> Iterator[Any]:
    """Yield the two columns, a heading above each line of the program or each call. The primal operations read
    downwards, the reverse sweep upwards: it begins at the bottom, with the seed. Raises ArgumentError for a tape
    without a reverse sweep.
    """
    fields = fields_of(tape)
    forward, beside = align(tape, fields, guards)
    left_out = len(forward) - HEAD - TAIL if len(forward) > WHOLE else 0
    parts = [forward[:HEAD], forward[-TAIL:]] if left_out else [forward]
    columns = Columns.of(tape, [op for part in parts for op in part], beside, fields, options)
    yield Text(heading(tape, guards), STYLES["title"])
    down, up = ("v", "^") if options.ascii_only else ("↓", "↑")
    yield columns.line(Text(f"forward {down}", STYLES["header"]), Text(f"reverse sweep {up}", STYLES["header"]))
    for number, part in enumerate(parts):
        if number:
            more = dots(options.ascii_only)
            yield Text(f"{more} {left_out:,} of {len(forward):,} operations left out {more}", STYLES["rule"])
        for i, (found, members) in enumerate(sections(part, group)):
            yield from title(found, i == 0, options)
            for op in members:
                yield from columns.lines(op)
    if left_out:
        yield Text("")
        yield summary.sheet(tape, options.max_width)
    yield Text("")
    yield legend((row.role for row in columns.rows.values()), options.ascii_only)


class Columns(NamedTuple):
    """The rows of primal operations and of the reverse sweep beside them, and the columns' widths."""

    rows: dict[Operation, Line]
    beside: dict[Operation, list[Operation | int]]
    sizes: tuple[dict[str, int], dict[str, int]]
    half: int  # the width of the left side
    ascii_only: bool

    @staticmethod
    def of(tape: Tape, shown: list[Operation], beside: dict[Operation, list[Operation]], fields: Fields,
           options: ConsoleOptions) -> Columns:
        """Return the rows, fitted into the console's width."""
        cut = {op: _cut(beside[op]) for op in shown}
        swept = [op for ops in cut.values() for op in ops if isinstance(op, Operation)]
        names = assigned(tape)
        left, right = ({op: brief_row(row, aligned=True) for op, row in zip(ops, lines(tape, ops, fields, True, names))}
                       for ops in (shown, swept))
        half = (options.max_width - 3) // 2
        without = ("line", "source")
        sizes = fit(list(left.values()), half, without), fit(list(right.values()), options.max_width - 3 - half,
                                                             without)
        return Columns(left | right, cut, sizes, half, options.ascii_only)

    def lines(self, op: Operation) -> Iterator[Text]:
        """Yield the sweep's rows for an operation, last first; the operation stands beside the first, or above the
        seed.
        """
        swept: list[Operation | int | None] = [*self.beside[op]] or [None]
        first = len(swept) - 1
        if first and isinstance(last := swept[-1], Operation) and last.purpose == "seed":
            first -= 1
        for i, part in enumerate(swept):
            left = text(self.rows[op], self.sizes[0], self.ascii_only) if i == first else Text()
            yield self.line(left, self._right(part))

    def _right(self, part: Operation | int | None) -> Text:
        if isinstance(part, Operation):
            return text(self.rows[part], self.sizes[1], self.ascii_only)
        return Text("" if part is None else f"{dots(self.ascii_only)} {count_of(part, 'operation')}", STYLES["rule"])

    def line(self, left: Text, right: Text) -> Text:
        """Return two texts in one line, with a rule between them."""
        line = Text(no_wrap=True, overflow="crop").append_text(left)
        line.append(" " * (self.half - len(left)))
        line.append(" | " if self.ascii_only else " │ ", STYLES["rule"])
        line.append_text(right)
        line.rstrip()
        return line


def _cut(ops: list[Operation]) -> list[Operation | int]:
    """Return the sweep's operations to show beside one, last first; a number stands for those left out."""
    if len(ops) > MOST:
        return [*reversed(ops[-(MOST // 2):]), len(ops) - MOST + 1, *reversed(ops[:MOST // 2 - 1])]
    return list(reversed(ops))
