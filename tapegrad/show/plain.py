"""A tape as plain text: ASCII, aligned, the same on every run."""

from __future__ import annotations

from collections.abc import Mapping

from tapegrad.show.body import body
from tapegrad.show.line import Line, bare, fields_of, heading, lines, listed, shorten, widths
from tapegrad.tape.tape import Tape

_BETWEEN = "  "
LONG, HEAD, TAIL = 2000, 200, 100  # operations printed in full; of a longer tape those at its ends


def format_tape(tape: Tape, compact: bool = False, width: int | None = None, whole: bool = True,
                guards: bool = True) -> str:
    """Return a line for each operation; if `compact`, one for each triple and for each pullback's call.

    Lines have at most `width` characters: the least important columns are left out. Unless `whole`, the middle of a
    long tape is left out; unless `guards`, guards are.
    """
    fields = fields_of(tape) if compact else None
    shown = listed(tape, fields, guards)
    elided = 0 if whole or len(shown) <= LONG else len(shown) - HEAD - TAIL
    shown = shown[:HEAD] + shown[-TAIL:] if elided else shown
    groups = [[_ascii(row) for row in (line, *(inner.row for inner in body(op, compact, guards=guards)))]
              for op, line in zip(shown, lines(tape, shown, fields))]
    groups = [[row._replace(note=f"# {row.note}" if row.note else "", source="") for row in group] for group in groups]
    size = widths([row for group in groups for row in group], width, lambda n: len(" = ") + len(_BETWEEN) * (n - 2))
    texts = [[_write(row, size, width is not None) for row in group]
             for group in (groups if width is None else bare(groups, size))]
    if elided:
        texts.insert(HEAD, [f"... {elided:,} of {len(tape):,} operations left out, see tape.format()"])
    written = [_escape(heading(tape, guards)), *(text for group in texts for text in group)]
    return "\n".join(written if width is None else [shorten(line, width) for line in written])


def _write(row: Line, size: Mapping[str, int], limited: bool) -> str:
    """Return a line with cells at their columns; one that is too wide shifts those after it no more than it must."""
    text, start = "", 0
    for name, width in size.items():
        cell = shorten(getattr(row, name), width) if limited else getattr(row, name)
        if name == "variable":
            assigned = "=" if "%" in cell else " "  # the results of a loop's body are no operation
            text, start = f"{cell:>{width}} {assigned} ", width + len(" = ")
        else:
            text = text.ljust(start) + cell + _BETWEEN if cell else text
            start += width + len(_BETWEEN)
    return text.rstrip()


def _ascii(row: Line) -> Line:
    return Line(*map(_escape, row)) if not all(map(str.isascii, row)) else row


def _escape(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
