"""report: tables and paragraphs as styled lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from tapegrad.show.display import Spans
from tapegrad.show.line import shorten
from tapegrad.show.styles import dots

WIDE = 120  # the width to which unlimited text is wrapped


class Column(NamedTuple):
    """A column of a table. In a narrow table, columns with a `least` width shrink to it, the widest first; if that does
    not suffice, they are left out, the last first.
    """

    name: str
    right: bool = False
    least: int | None = None


def table(columns: Sequence[Column], rows: Sequence[tuple[str, Sequence[str]]], width: int | None,
          ascii_only: bool) -> list[Spans]:
    """Return a header and the rows, fitted to a width; a row is the name of a style and a cell for every column.
    Columns that are empty throughout are left out.
    """
    sizes = {i: max(len(cells[i]) for _, cells in rows) for i in range(len(columns))}
    sizes = {i: max(size, len(columns[i].name)) for i, size in sizes.items() if size}
    if width is not None:
        sizes = _fit(sizes, [column.least for column in columns], width)
    lines: list[Spans] = []
    for style, cells in [("header", [column.name for column in columns]), *rows]:
        line: Spans = []
        for i, size in sizes.items():
            cell = shorten(cells[i], size, dots(ascii_only), columns[i].right)
            dim = "source" if columns[i].name == "source" and style not in ("header", "title") else style
            line += [(cell.rjust(size) if columns[i].right else cell.ljust(size), dim), ("  ", "")]
        lines.append(line[:-1])
    return lines


def _fit(sizes: dict[int, int], least: Sequence[int | None], width: int) -> dict[int, int]:
    """Return the columns that fit, and their widths."""
    kept = dict(sizes)
    while True:
        fitted = dict(kept)
        while sum(fitted.values()) + 2 * (len(fitted) - 1) > width:
            roomy = [i for i, size in fitted.items() if (smallest := least[i]) is not None and size > smallest]
            if not roomy:
                break
            fitted[max(roomy, key=lambda i: fitted[i])] -= 1
        spare = [i for i in kept if least[i] is not None]
        if not spare or sum(fitted.values()) + 2 * (len(fitted) - 1) <= width:
            return fitted  # lines that are still too long are cut
        del kept[spare[-1]]


def paragraph(text: str, style: str, width: int | None, indent: str = "  ") -> list[Spans]:
    """Return text wrapped to the width."""
    wrapped = textwrap.wrap(text, max((width or WIDE) - len(indent), 20), break_long_words=False,
                            break_on_hyphens=False)
    return [[(indent, ""), (line, style)] for line in wrapped]
