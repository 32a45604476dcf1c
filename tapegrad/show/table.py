"""A tape as a table on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text

from tapegrad.show import summary
from tapegrad.show.assigned import assigned
from tapegrad.show.body import body
from tapegrad.show.group import Group, called, sections
from tapegrad.show.line import Line, bare, fields_of, heading, lines, listed
from tapegrad.show.row import BETWEEN, cell, fit, legend, mark, nowhere, place, style
from tapegrad.show.styles import STYLES, dots
from tapegrad.tape.tape import Operation, Tape

WHOLE = 200  # lines of a tape that is shown in full
HEAD, TAIL = 40, 20  # lines of a longer one
HEADERS = {"variable": "var", "mark": ""}

def render(tape: Tape, group: str | None, console: Console, options: ConsoleOptions,
           compact: bool = False, guards: bool = True) -> Iterator[Any]:
    """Yield the heading and the table: as many columns as fit; of a long tape the head, the tail and a count by line.
    With `group` "line" or "call", headings above the operations replace the columns for their places.
    """
    fields = fields_of(tape) if compact else None
    shown = listed(tape, fields, guards)
    left_out = len(shown) - HEAD - TAIL if len(shown) > WHOLE else 0
    head, tail = (shown[:HEAD], shown[-TAIL:]) if left_out else (shown, [])
    names = assigned(tape)
    rows = {op: [row, *(inner.row for inner in body(op, compact, True, guards))]
            for ops in (head, tail) for op, row in zip(ops, lines(tape, ops, fields, True, names))}
    every = [row for group in rows.values() for row in group]
    size = fit(every, options.max_width, ("line", "source") if group == "line" else (), mark_gaps=4)
    rows = dict(zip(rows, bare([*rows.values()], size)))
    yield Text(heading(tape, guards), STYLES["title"])
    yield from _part(head, rows, size, group, options)
    if left_out:
        more, what = dots(options.ascii_only), "lines" if compact else "operations"
        yield Text(f"{more} {left_out:,} of {len(shown):,} {what} left out, see tape.format() {more}", STYLES["rule"])
        yield from _part(tail, rows, size, group, options, show_header=False)
        yield Text("")
        yield summary.sheet(tape, options.max_width)
    if any(row.role != "input" and mark(row.role, False) for row in every):
        yield Text("")
        yield legend((row.role for row in every), options.ascii_only)


def _part(ops: list[Operation], rows: dict[Operation, list[Line]], size: dict[str, int], group: str | None,
          options: ConsoleOptions, show_header: bool = True) -> Iterator[Any]:
    """Yield the table of some operations, or one below each heading of a group."""
    if group is None:
        yield from _table([row for op in ops for row in rows[op]], size, options.ascii_only, show_header)
        return
    for number, (found, members) in enumerate(sections(ops, group)):
        yield from title(found, number == 0, options)
        yield from _table([row for op in members for row in rows[op]], size, options.ascii_only, show_header=False)


def title(group: Group, first: bool, options: ConsoleOptions) -> Iterator[Text]:
    """Yield the heading of a line or a call; none above the inputs, which come first."""
    if group.where is None:
        yield from () if first else [nowhere()]
    elif group.run is None:
        yield place(group.where, options.max_width, options.ascii_only)
    else:
        found = Text(group.name, STYLES["function"], no_wrap=True, overflow="crop")
        where = called(group.run)
        if where is not None:
            found.append(" called from ", STYLES["line"])
            found.append_text(place(where, options.max_width - len(found), options.ascii_only))
        yield found


def _table(rows: list[Line], size: dict[str, int], ascii_only: bool, show_header: bool = True) -> Iterator[Text]:
    """Yield the lines of a table. rich's Table lays out each cell anew, which takes more than twice as long."""
    names = {name: HEADERS.get(name, name) for name in size if show_header}
    wide = {name: max(width, len(names.get(name, ""))) for name, width in size.items()}
    if names:
        yield _line({name: (header, STYLES["header"]) for name, header in names.items()}, wide)
        yield Text(("-" if ascii_only else "─") * (sum(wide.values()) + BETWEEN * (len(wide) - 1)), STYLES["rule"])
    for number, row in enumerate(_without_repeats(rows)):
        if show_header and number and row.role == "seed":
            yield Text("")
        cells = {name: (cell(row, name, width, ascii_only), style(name, row.role)) for name, width in size.items()}
        yield _line(cells, wide)


def _line(cells: dict[str, tuple[str, str]], wide: dict[str, int]) -> Text:
    found = Text(no_wrap=True, overflow="crop")
    for name, (content, look) in cells.items():
        found.append(content.rjust(wide[name]) if name == "variable" else content.ljust(wide[name]), look)
        found.append(" " * BETWEEN)
    found.rstrip()
    return found


def _without_repeats(rows: list[Line]) -> Iterator[Line]:
    """Yield the lines, with the source only where it changes."""
    last = ("", "")
    for row in rows:
        place = row.line, row.source
        yield row._replace(line="", source="") if place == last else row
        last = place
