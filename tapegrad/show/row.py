"""Row: a printed line as one text of aligned, styled cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from tapegrad.errors import Location
from tapegrad.show.line import Line, shorten, widths
from tapegrad.show.styles import MARKS, STYLES

BETWEEN = 2


def dots(ascii_only: bool) -> str:
    """Return what stands where something is left out."""
    return "..." if ascii_only else "…"


def mark(role: str, ascii_only: bool) -> str:
    """Return the mark of a role: what a colour says, for those who see none."""
    return MARKS.get(role, ("", ""))[ascii_only]


def style(column: str, role: str) -> str:
    """Return the style of a cell: the operation has its role's, the other columns their own."""
    return STYLES[role if column in ("variable", "mark", "operation") else column]


def brief_row(row: Line, aligned: bool = False) -> Line:
    """Return a compact row with less in it: a triple as its call, its own name left out; `aligned` beside what it is for."""
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


def fit(rows: Sequence[Line], total: int, without: Iterable[str] = ()) -> dict[str, int]:
    """Return the columns of rows that fit into `total` characters, a mark after the variable, and their widths."""
    blank = dict.fromkeys(without, "")
    size = widths([row._replace(**blank) for row in rows], max(total, 20), lambda n: BETWEEN * n + 1)
    if any(row.role in MARKS for row in rows):
        size = {"variable": size.pop("variable", 0), "mark": 1, **size}
    return size


def text(row: Line, size: Mapping[str, int], ascii_only: bool, pad: bool = False) -> Text:
    """Return a row's cells at their columns; padded, so that another row can stand beside it."""
    parts = Text(no_wrap=True, overflow="crop", end="")
    last = list(size)[-1]
    for name, width in size.items():
        cell = mark(row.role, ascii_only) if name == "mark" else shorten(getattr(row, name), width, dots(ascii_only))
        parts.append(cell.rjust(width) if name == "variable" else cell, style(name, row.role))
        if name == "variable":
            cell = cell.rjust(width)
        gap = (1 if name == "variable" and "mark" in size else 0 if name == last else BETWEEN) if name != "mark" else 1
        parts.append(" " * (width - len(cell) + gap))
    if not pad:
        parts.rstrip()
    return parts


def place(where: Location, length: int, ascii_only: bool) -> Text:
    """Return a line of the program: where it stands, and its text."""
    found = Text(no_wrap=True, overflow="crop")
    found.append(shorten(where.short, length, dots(ascii_only)), STYLES["line"])
    if room := length - len(where.short) - BETWEEN:
        found.append("  " + shorten(where.source, max(room, 0), dots(ascii_only)), STYLES["text"])
    return found


def legend(roles: Iterable[str], ascii_only: bool) -> Text:
    """Say what the marks mean that occur."""
    present = set(roles)
    found = Text("", STYLES["rule"])
    for role in MARKS:
        if role in present:
            found.append("   " if found else "")
            found.append(mark(role, ascii_only), STYLES[role])
            found.append(f" {role}")
    return found
