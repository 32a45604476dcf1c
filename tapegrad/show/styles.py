"""Styles as data: the look of each part of a printed tape on a terminal, and of every table."""

from __future__ import annotations

from typing import Any

# The colours are Okabe and Ito's, which the colour-blind can distinguish (Wong, Nature Methods 8, 441), without the
# yellow and the dark blue, invisible on white or black. A mark or the note repeats what a colour shows.
STYLES = {
    # the roles of an operation
    "input": "bold",
    "constant": "dim",
    "primal": "",
    "guard": "#d55e00",
    "triple": "#56b4e9",
    "seed": "bold #e69f00",
    "pullback": "#cc79a7",
    "accumulation": "#e69f00",
    "gradient": "bold #009e73",
    # the changes of an operation
    "removed": "#d55e00",
    "added": "bold #009e73",
    "changed": "#e69f00",
    "was": "dim #e69f00",
    "same": "dim",
    # the kinds of a foreign function
    "differentiable": "bold #009e73",
    "composite": "#009e73",
    "traced": "#009e73",
    "non-differentiable": "",
    "constructor": "#56b4e9",
    "plain": "dim",
    "refused": "#d55e00",
    "unknown": "bold #e69f00",
    # a debugger's findings and positions
    "finding": "bold #d55e00",
    "advice": "bold #009e73",
    "forward": "#56b4e9",
    "backward": "#e69f00",
    "here": "bold reverse",
    "present": "bold",
    # the other columns
    "": "",
    "header": "bold",
    "title": "bold",
    "function": "bold",
    "type": "",
    "value": "",
    "note": "italic",
    "line": "dim",
    "source": "dim",
    "text": "bold",
    "rule": "dim",
}

# The mark between a variable and its operation, on a Unicode and on an ASCII terminal.
MARKS = {
    "input": ("→", ">"),
    "guard": ("?", "?"),
    "triple": ("⋮", ":"),
    "seed": ("●", "*"),
    "pullback": ("←", "<"),
    "accumulation": ("+", "+"),
    "gradient": ("∇", "="),
}

# rich's box.SIMPLE_HEAD, in ASCII
_ASCII = "    \n    \n -- \n    \n    \n    \n    \n    \n"


def dots(ascii_only: bool) -> str:
    """Return the sign for an omission."""
    return "..." if ascii_only else "…"


def empty(ascii_only: bool, show_header: bool = True) -> Any:
    """Return a rich table without columns, in tapegrad's style."""
    from rich import box
    from rich.table import Table
    return Table(box=box.Box(_ASCII, ascii=True) if ascii_only else box.SIMPLE_HEAD, show_edge=False, pad_edge=False,
                 padding=(0, 1, 0, 0),
                 header_style=STYLES["header"], border_style=STYLES["rule"], show_header=show_header)
