"""Report: styled lines, as plain text or on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tapegrad.show.display import Displayed
from tapegrad.show.styles import STYLES

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

Spans = list[tuple[str, str]]
"""One line: pieces of text, each with the name of its style."""

STYLE = {**STYLES, "": "", "finding": "bold #d55e00", "advice": "bold #009e73", "forward": "#56b4e9",
         "backward": "#e69f00",
         "here": "bold reverse", "present": "bold"}
WIDE = 120  # the least width at which text that has no limit is wrapped


class Report(Displayed):
    """What prints itself: `lines` says how, for a width and a set of characters."""

    def lines(self, width: int | None, ascii_only: bool) -> Iterable[Spans]:
        """Return the lines; one that is too long is cut."""
        raise NotImplementedError

    def format(self, width: int | None = None) -> str:
        """Return ASCII text of at most `width` characters to a line."""
        texts = ("".join(text for text, _ in line).rstrip() for line in self.lines(width, True))
        escaped = (text.encode("ascii", "backslashreplace").decode() for text in texts)
        return "\n".join(text if width is None else cut(text, width, True) for text in escaped)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        from rich.text import Text
        ascii_only = options.ascii_only
        for line in self.lines(options.max_width, ascii_only):
            spans = [(text.encode("ascii", "backslashreplace").decode() if ascii_only else text, STYLE[style])
                     for text, style in line]
            text = Text.assemble(*spans, no_wrap=True, overflow="crop")
            text.rstrip()
            if text.cell_len > options.max_width:
                text.truncate(options.max_width - (3 if ascii_only else 1), overflow="crop")
                text.append("..." if ascii_only else "…")
            yield text


class Column(NamedTuple):
    """A column of a table. One with a `least` width may shrink to it, the widest first, and is left out, the last
    first, where that does not do.
    """

    name: str
    right: bool = False
    least: int | None = None


def table(columns: Sequence[Column], rows: Sequence[tuple[str, Sequence[str]]], width: int | None,
          ascii_only: bool) -> list[Spans]:
    """Return a header and the rows, each the name of a style and a cell for every column, fitted to a width.

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
            cell = cut(cells[i], size, ascii_only, ending=columns[i].right)
            dim = "source" if columns[i].name == "source" and style not in ("header", "title") else style
            line += [(cell.rjust(size) if columns[i].right else cell.ljust(size), dim), ("  ", "")]
        lines.append(line[:-1])
    return lines


def _fit(sizes: dict[int, int], least: Sequence[int | None], width: int) -> dict[int, int]:
    """Return the columns that there is room for, and their widths."""
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
            return fitted  # what is too long now is cut
        del kept[spare[-1]]


def cut(text: str, width: int, ascii_only: bool, ending: bool = False) -> str:
    """Cut text to a width, with dots where something is missing: at the end, or before the `ending`."""
    dots = ("..." if ascii_only else "…")[:max(width, 0)]
    kept = max(width - len(dots), 0)
    return text if len(text) <= width else dots + text[len(text) - kept:] if ending else text[:kept] + dots


def paragraph(text: str, style: str, width: int | None, indent: str = "  ") -> list[Spans]:
    """Return text wrapped to the width."""
    wrapped = textwrap.wrap(text, max((width or WIDE) - len(indent), 20), break_long_words=False,
                            break_on_hyphens=False)
    return [[(indent, ""), (line, style)] for line in wrapped]
