"""The output of the commands, printed or written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.show import WRITTEN
from tapegrad.show.display import terminal_width
from tapegrad.tape.tape import Tape


def print_tape(tape: Tape, options: argparse.Namespace) -> None:
    """Print a tape in the format, grouping and width of the options."""
    group, terminal = getattr(options, "group", None), sys.stdout.isatty()
    format: Any = options.format or ("table" if group or terminal else "plain")
    if group or format not in WRITTEN:
        tape.show(format, group, options.width, guards=options.guards)
    else:
        print(tape.format(format, options.width or terminal_width(),
                          options.guards))


def print_shown(shown: Any, text: Callable[[int | None], str], format: str | None = None) -> None:
    """Print as a table on a terminal, else as text; a terminal's width limits the lines."""
    terminal = sys.stdout.isatty()
    if format == "table" or (format is None and terminal):
        from rich.console import Console
        Console().print(shown)
    else:
        print(text(terminal_width()))


def print_found(found: Any) -> None:
    """Print a result of one of tapegrad's functions, with rich on a terminal."""
    print_shown(found, lambda width: str(found))


def print_values(rows: list[tuple[str, Any]]) -> None:
    """Print values under their names."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}} = " + written(value).replace("\n", "\n" + " " * (width + 3)))


def written(value: Any) -> str:
    """Return a value as text, in full."""
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ")
    with np.printoptions(legacy="1.25"):  # a NumPy scalar in a structure prints as a number
        return repr(value.item() if isinstance(value, np.generic) else value)


def write(content: str | bytes, path: str) -> None:
    """Write to a file, or to standard output if the path is `-`."""
    if path.strip() != "-":
        Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    elif isinstance(content, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        print(content, end="" if content.endswith("\n") else "\n")
