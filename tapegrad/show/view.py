"""View: a tape on a console, in one of its formats."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, cast

from rich.console import Console, ConsoleOptions
from rich.syntax import Syntax
from rich.text import Text

from tapegrad.errors import ArgumentError
from tapegrad.show import FORMATS, GROUPS, mirror, summary, table, tree
from tapegrad.show.display import as_html
from tapegrad.show.line import heading
from tapegrad.show.plain import format_tape
from tapegrad.show.styles import STYLES
from tapegrad.tape.tape import Tape
from tapegrad.trace.collector import collector

WIDE = 120  # default characters to a line of text
THEME = "ansi_dark"  # the terminal's own sixteen colours


class View(NamedTuple):
    """A tape, and the format to show it in."""

    tape: Tape
    format: str = "table"
    group: str | None = None
    guards: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        if self.format == "tree":
            yield from tree.render(self.tape, self.group, console, options, self.guards)
        elif self.format == "mirror":
            yield from mirror.render(self.tape, self.group or "line", console, options, self.guards)
        elif self.format == "summary":
            yield Text(heading(self.tape), STYLES["title"])
            yield summary.sheet(self.tape, options.max_width, limit=None)
        else:
            yield from table.render(self.tape, self.group, console, options, self.format == "compact", self.guards)


def show(tape: Tape, format: str = "table", group: str | None = None, width: int | None = None,
         file: IO[str] | None = None, console: Console | None = None, guards: bool = True) -> None:
    """Print a tape on a console, in colours if this is a terminal and NO_COLOR is not set."""
    if format not in FORMATS:
        raise ArgumentError(f"there is no format {format!r}", try_=f"one of {', '.join(map(repr, FORMATS))}")
    if group is not None and group not in GROUPS:
        raise ArgumentError(f"there is no group {group!r}", try_=f"one of {', '.join(map(repr, GROUPS))}, or None")
    shown: Any = View(tape, format, group, guards)
    if format == "plain":
        shown = Text(format_tape(tape, width=width, guards=guards))
    if format == "python":
        shown = Syntax(tape.to_python(), "python", theme=THEME, background_color="default", word_wrap=True)
    present(shown, width, file, console)


def present(shown: Any, width: int | None, file: IO[str] | None, console: Console | None) -> None:
    """Print on a console or into a file; in a notebook, display objects in their notebook form if they have one."""
    if console is not None and file is not None:
        raise ArgumentError("show takes a console or a file", try_="Console(file=file), for both")
    if console is None and file is None and Console().is_jupyter:
        from IPython.display import display
        own, shows = hasattr(shown, "_repr_mimebundle_"), cast(Any, display)  # IPython's display is untyped
        shows(shown if own else {"text/html": as_html(shown, width)}, raw=not own)
        return
    with collector:
        (console or Console(file=file, width=width)).print(shown, width=width)


def written(tape: Tape, format: str, width: int | None = None, guards: bool = True) -> str:
    """Return the text that `show` prints."""
    if format == "python":
        return tape.to_python()
    file = io.StringIO()
    show(tape, format, width=width, console=Console(file=file, width=width or WIDE), guards=guards)
    return file.getvalue().rstrip("\n")
