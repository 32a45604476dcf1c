"""A tape as plain text: ASCII, aligned, the same on every run."""

from __future__ import annotations

from collections.abc import Mapping

from tapegrad.show.body import body
from tapegrad.show.line import Line, fields_of, heading, joins, lines, shorten, widths
from tapegrad.tape.tape import Tape

_BETWEEN = "  "
WHOLE, HEAD, TAIL = 1000, 300, 100  # operations


def format_tape(tape: Tape, compact: bool = False, width: int | None = None, whole: bool = True) -> str:
    """Return a line for each operation; if `compact`, one for each triple and for each pullback's call.

    At most `width` characters to a line, by leaving out the least important columns; of a long tape, if not the
    `whole`, its head and its tail.
    """
    fields = fields_of(tape) if compact else None
    joined = joins(fields)
    shown = [op for op in tape if op not in joined]
    left = 0 if whole or len(shown) <= WHOLE else len(shown) - HEAD - TAIL
    if left:
        shown[HEAD:-TAIL] = []
    rows: list[Line] = []
    head = 0
    for number, (op, line) in enumerate(zip(shown, lines(tape, shown, fields))):
        head = len(rows) if number == HEAD else head
        rows += [_ascii(row) for row in (line, *(inner.row for inner in body(op, compact)))]
    rows = [row._replace(note=f"# {row.note}" if row.note else "", source="") for row in rows]
    size = widths(rows, width, lambda n: len(" = ") + len(_BETWEEN) * (n - 2))
    written = [_escape(heading(tape)), *(_write(row, size, width is not None) for row in rows)]
    if left:
        written.insert(1 + head, f"... {left:,} operations left out: print(tape.format()) has them all ...")
    return "\n".join(written if width is None else [shorten(line, width) for line in written])


def _write(row: Line, size: Mapping[str, int], limited: bool) -> str:
    """Put a line's cells at their columns; one that is too wide moves only what follows it, only as far as it must."""
    text, start = "", 0
    for name, width in size.items():
        cell = shorten(getattr(row, name), width) if limited else getattr(row, name)
        if name == "variable":
            assigned = "=" if "%" in cell else " "  # what a loop's runs hand on is no operation
            text, start = f"{cell:>{width}} {assigned} ", width + len(" = ")
        else:
            text = text.ljust(start) + cell + _BETWEEN if cell else text
            start += width + len(_BETWEEN)
    return text.rstrip()


def _ascii(row: Line) -> Line:
    return Line(*map(_escape, row)) if not all(map(str.isascii, row)) else row


def _escape(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
