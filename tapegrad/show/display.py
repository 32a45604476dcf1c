"""display: what prints itself on a terminal shows the same colours in a notebook."""

from __future__ import annotations

import io
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from tapegrad.show.styles import STYLES

COLUMNS = 100  # characters to a line of a notebook's cell
_HEAD = re.compile(r" *(\d+  )?")  # an indent, and what is counted
FRAME = ('<pre style="font:12px/1.45 ui-monospace,\'DejaVu Sans Mono\',Menlo,Consolas,monospace;white-space:pre;'
         'overflow-x:auto;margin:0">{code}</pre>')


def as_html(shown: Any, width: int | None = None) -> str:
    """Return what a terminal shows as HTML, in its colours, at the width of a notebook's cell."""
    from rich.console import Console
    console = Console(file=io.StringIO(), record=True, width=width or COLUMNS, force_terminal=True, force_jupyter=False,
                      color_system="truecolor", legacy_windows=False)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format=FRAME)


def terminal_width() -> int | None:
    """Return the width of the terminal that is written to; None where standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


class Displayed:
    """What a notebook shows in colour, and as plain text where it cannot, of the terminal's width on one."""

    __slots__ = ()

    def format(self, width: int | None = None) -> str:
        """Return text of at most `width` characters to a line."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.format(terminal_width())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._html()}

    def _html(self) -> str:
        return as_html(self)


class Told(Displayed):
    """Lines of text: a title, headers, and below each what is indented."""

    __slots__ = ()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text."""
        raise NotImplementedError

    def format(self, width: int | None = None) -> str:
        return "\n".join(self._wrapped(width))

    def __repr__(self) -> str:
        return str(self)

    def _wrapped(self, width: int | None) -> Iterator[str]:
        """Yield the lines, what is too long below its beginning."""
        for line in self.lines():
            inside = _HEAD.match(line).end()  # type: ignore[union-attr]
            yield from [line] if width is None else textwrap.wrap(
                line, max(width, 40), drop_whitespace=True, subsequent_indent=" " * inside, break_long_words=False,
                break_on_hyphens=False)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text
        for number, line in enumerate(self._wrapped(options.max_width)):
            yield Text(line, "" if line.startswith(" ") else STYLES["header" if number else "title"])
