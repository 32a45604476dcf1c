"""display: what prints itself on a terminal shows the same colours in a notebook."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from tapegrad.show.styles import STYLES

COLUMNS = 100  # characters to a line of a notebook's cell
FRAME = ('<pre style="font:12px/1.45 ui-monospace,\'DejaVu Sans Mono\',Menlo,Consolas,monospace;white-space:pre;'
         'overflow-x:auto;margin:0">{code}</pre>')


def as_html(shown: Any, width: int | None = None) -> str:
    """Return what a terminal shows as HTML, in its colours, at the width of a notebook's cell."""
    from rich.console import Console
    console = Console(file=io.StringIO(), record=True, width=width or COLUMNS, force_terminal=True, force_jupyter=False,
                      color_system="truecolor", legacy_windows=False)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format=FRAME)


class Displayed:
    """What a notebook shows in colour, and as plain text where it cannot."""

    __slots__ = ()

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

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text
        for number, line in enumerate(self.lines()):
            yield Text(line, "" if line.startswith(" ") else STYLES["header" if number else "title"])
