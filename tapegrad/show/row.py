"""Row: a printed line as one text of aligned, styled cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from tapegrad.errors import Location
from tapegrad.show.line import Line, shorten, widths
from tapegrad.show.styles import MARKS, STYLES, dots

BETWEEN = 2
NOTED = 37  # least width that has notes


def mark(role: str, ascii_only: bool) -> str:
    """Return the mark of a role, which repeats what its colour shows."""
    return MARKS.get(role, ("", ""))[ascii_only]


def style(column: str, role: str) -> str:
    """Return the style of a cell: that of the role for the operation, that of the column for others."""
    return STYLES[role if column in ("variable", "mark", "operation") else column]


def brief_row(row: Line, aligned: bool = False) -> Line:
    """Return a shorter form of a compact row: a triple as its call, without its own name. If `aligned`, the note omits
    text that the row beside it shows.
    """
    variable, _, _ = row.variable.partition(" = [")
    operation, note = row.operation, row.note
    if operation.startswith("rrule("):
        name, _, args = operation[len("rrule("):].partition(", ")
        operation = f"{name}({args}"
    if aligned:
        for prefix, instead in (("accumulate ", ""), ("gradient of ", "d")):
            note = instead + note[len(prefix):] if note.startswith(prefix) else note
        note = note.partition(": ")[2] or note if note.startswith("pullback of ") else note
    return row._replace(variable=variable.rstrip(","), operation=operation, note=note)


def fit(rows: Sequence[Line], total: int, without: Iterable[str] = (), mark_gaps: int = 2) -> dict[str, int]:
    """Return the columns of rows that fit into `total` characters, a mark after the variable, and their widths. Around
    the mark there are `mark_gaps` blanks. Narrow rows have no notes.
    """
    blank = dict.fromkeys((*without, *(("note",) if total < NOTED else ())), "")
    size = widths([row._replace(**blank) for row in rows], max(total, 20), lambda n: BETWEEN * (n - 2) + mark_gaps + 1)
    if any(row.role in MARKS for row in rows):
        size = {"variable": size.pop("variable", 0), "mark": 1, **size}
    return size


def cell(row: Line, name: str, width: int, ascii_only: bool) -> str:
    """Return a row's entry in a column, cut to its width."""
    return mark(row.role, ascii_only) if name == "mark" else shorten(getattr(row, name), width, dots(ascii_only))


def text(row: Line, size: Mapping[str, int], ascii_only: bool) -> Text:
    """Return a row's cells at their columns."""
    found = Text(no_wrap=True, overflow="crop")
    for name, width in size.items():
        content = cell(row, name, width, ascii_only)
        found.append(content.rjust(width) if name == "variable" else content.ljust(width), style(name, row.role))
        found.append(" " if name == "mark" or (name == "variable" and "mark" in size) else " " * BETWEEN)
    found.rstrip()
    return found


def place(where: Location, length: int, ascii_only: bool) -> Text:
    """Return a line of the program: its location and its text."""
    found = Text(no_wrap=True, overflow="crop")
    found.append(shorten(where.short, length, dots(ascii_only)), STYLES["line"])
    if room := length - len(where.short) - BETWEEN:
        found.append("  " + shorten(where.source, max(room, 0), dots(ascii_only)), STYLES["text"])
    return found


def nowhere() -> Text:
    """Return the heading of operations that no line of the program recorded: a seed, a result."""
    return Text("(no line)", STYLES["line"])


def legend(roles: Iterable[str], ascii_only: bool) -> Text:
    """Return the meanings of the marks that occur."""
    present = set(roles)
    found = Text("", STYLES["rule"])
    for role in MARKS:
        if role in present:
            found.append("   " if found else "")
            found.append(mark(role, ascii_only), STYLES[role])
            found.append(f" {role}")
    return found
