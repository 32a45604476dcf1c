"""Sheet: a title and rows of cells, on a terminal or as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tapegrad.show.display import as_html
from tapegrad.show.line import shorten
from tapegrad.show.styles import STYLES, empty

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions


class Sheet(NamedTuple):
    """A title, a header, and rows: the name of a style, then the cells."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, tuple[str, ...]]]
    numbers: bool = False  # all columns but the first hold numbers

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": as_html(self)}

    def format(self, width: int | None = None) -> str:
        """Return aligned ASCII text of at most `width` characters to a line."""
        table = [self.header, *(cells for _, cells in self.rows)]
        sizes = [max(map(len, column)) for column in zip(*table)]
        rows = ["  ".join(cell.rjust(size) if self.numbers and i else cell.ljust(size)
                          for i, (cell, size) in enumerate(zip(row, sizes)))
                for row in table]
        lines = [self.title, *map(str.rstrip, rows)]
        return "\n".join(lines if width is None else [shorten(line, width) for line in lines])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        from rich.text import Text
        yield Text(self.title, STYLES["title"])
        table = empty(options.ascii_only)
        for i, name in enumerate(self.header):
            if self.numbers and i:  # in a narrow table headers are folded and numbers stay whole
                widest = max(len(cells[i]) for _, cells in self.rows)
                table.add_column(name.replace(".", ".\n"), justify="right", min_width=widest, overflow="fold")
            else:
                table.add_column(name, no_wrap=i < len(self.header) - 1, overflow="fold")
        for style, cells in self.rows:
            table.add_row(*(Text(cell, STYLES["note" if name == "note" else style])
                            for name, cell in zip(self.header, cells)))
        yield table
