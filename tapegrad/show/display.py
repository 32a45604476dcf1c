"""display: base classes of objects that print in the same colours on a terminal and in a notebook."""

from __future__ import annotations

import io
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tapegrad.show.line import shorten
from tapegrad.show.styles import STYLES, dots

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

Spans = list[tuple[str, str]]
"""One line: pieces of text, each with the name of its style."""

COLUMNS = 100  # characters to a line of a notebook's cell
_HEAD = re.compile(r" *(\d+  )?")  # an indent, and a count
FRAME = ('<pre style="font:12px/1.45 ui-monospace,\'DejaVu Sans Mono\',Menlo,Consolas,monospace;white-space:pre;'
         'overflow-x:auto;margin:0">{code}</pre>')


def as_html(shown: Any, width: int | None = None) -> str:
    """Return an object's terminal output as HTML, in colours, at the width of a notebook's cell."""
    from rich.console import Console
    console = Console(file=io.StringIO(), record=True, width=width or COLUMNS, force_terminal=True, force_jupyter=False,
                      color_system="truecolor", legacy_windows=False)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format=FRAME)


def terminal_width() -> int | None:
    """Return the width of the terminal, None if standard output is not one."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


class Displayed:
    """Base of objects that notebooks and terminals show in colour where they can: `lines` returns the text for a width
    and a character set.
    """

    __slots__ = ()

    def lines(self, width: int | None, ascii_only: bool) -> Iterable[Spans]:
        """Return the lines; too long ones are cut."""
        raise NotImplementedError

    def format(self, width: int | None = None) -> str:
        """Return ASCII text of at most `width` characters to a line."""
        texts = ("".join(text for text, _ in line).rstrip() for line in self.lines(width, True))
        escaped = (text.encode("ascii", "backslashreplace").decode() for text in texts)
        return "\n".join(text if width is None else shorten(text, width) for text in escaped)

    def __str__(self) -> str:
        return self.format(terminal_width())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._html()}

    def _html(self) -> str:
        return as_html(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        from rich.text import Text
        ascii_only = options.ascii_only
        for line in self.lines(options.max_width, ascii_only):
            spans = [(text.encode("ascii", "backslashreplace").decode() if ascii_only else text, STYLES[style])
                     for text, style in line]
            text = Text.assemble(*spans, no_wrap=True, overflow="crop")
            text.rstrip()
            if text.cell_len > options.max_width:
                text.truncate(options.max_width - len(dots(ascii_only)), overflow="crop")
                text.append(dots(ascii_only))
            yield text


class Told(Displayed):
    """Base of objects that print as text: a title, headers, and indented lines below each."""

    __slots__ = ()

    def texts(self) -> Iterator[str]:
        """Yield the lines, of any length."""
        raise NotImplementedError

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        for number, text in enumerate(self.texts()):
            inside = _HEAD.match(text).end()  # type: ignore[union-attr]
            style = "" if text.startswith(" ") else "header" if number else "title"
            yield from ([(line, style)] for line in ([text] if width is None else textwrap.wrap(
                text, max(width, 40), subsequent_indent=" " * inside, break_long_words=False, break_on_hyphens=False)))

    def __repr__(self) -> str:
        return str(self)
