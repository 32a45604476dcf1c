"""A tape as a table on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from tapegrad.show.line import Line, heading, lines, shorten, widths
from tapegrad.show.styles import STYLES
from tapegrad.tape import Tape

HEAD, TAIL = 200, 50  # what is shown of a long tape
HEADERS = {"variable": "var"}
ASCII = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)  # box.SIMPLE_HEAD, in ASCII


def render(tape: Tape, console: Console, options: ConsoleOptions) -> Iterator[Any]:
    """Yield the heading and the table: as many columns as fit, the head and the tail of a long tape."""
    dots = "..." if options.ascii_only else "…"
    left_out = max(len(tape) - HEAD - TAIL, 0)
    head, tail = (tape.ops[:HEAD], tape.ops[-TAIL:]) if left_out else (tape.ops, [])
    parts = [list(_without_repeats(lines(tape, ops))) for ops in (head, tail)]
    size = widths(parts[0] + parts[1], options.max_width, lambda n: 2 * (n - 1))
    yield Text(heading(tape), STYLES["title"])
    yield _table(parts[0], size, options.ascii_only, dots)
    if left_out:
        noun = "operation is" if left_out == 1 else "operations are"
        yield Text(f"{dots} {left_out} {noun} left out: print(tape) shows all {dots}", STYLES["rule"])
        yield _table(parts[1], size, options.ascii_only, dots, show_header=False)


def empty(ascii_only: bool, show_header: bool = True) -> Table:
    """Return a table without columns, in the style of all that tapegrad shows."""
    return Table(box=ASCII if ascii_only else box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0),
                 header_style=STYLES["header"], border_style=STYLES["rule"], show_header=show_header)


def _table(rows: list[Line], size: dict[str, int], ascii_only: bool, dots: str, show_header: bool = True) -> Table:
    table = empty(ascii_only, show_header)
    for name, width in size.items():
        table.add_column(HEADERS.get(name, name), width=width, no_wrap=True, overflow="crop", justify="right" if name == "variable" else "left")
    for number, row in enumerate(rows, 1):
        cells = (Text(shorten(getattr(row, name), width, dots), _style(name, row)) for name, width in size.items())
        table.add_row(*cells, end_section=number < len(rows) and rows[number].role == "seed")
    return table


def _style(column: str, row: Line) -> str:
    return STYLES[row.role if column in ("variable", "operation") else column]


def _without_repeats(rows: Iterator[Line]) -> Iterator[Line]:
    """Yield the lines, the source only where it changes."""
    last = ("", "")
    for row in rows:
        place = row.line, row.source
        yield row._replace(line="", source="") if place == last else row
        last = place
