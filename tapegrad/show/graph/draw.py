"""draw: chooses and writes the picture of a tape."""

from __future__ import annotations

from pathlib import Path

from tapegrad.errors import ArgumentError
from tapegrad.show.graph.bylines import by_lines
from tapegrad.show.graph.dot import to_dot
from tapegrad.show.graph.fold import fold
from tapegrad.show.graph.page import to_cell, to_html
from tapegrad.show.graph.picture import GROUPS, LIMIT, MOST_BOXES, MOST_WORK, Picture
from tapegrad.show.graph.rows import layout_work
from tapegrad.show.graph.svg import to_svg
from tapegrad.tape.tape import Tape


def draw(tape: Tape, form: str, path: str | Path | None = None, group: str | None = None) -> str:
    """Return the picture of a tape as "svg", "html", "dot" or "cell" (for a notebook), and write it to `path`. Raises
    ArgumentError for a group other than "operation", "line" or None.
    """
    content = {"svg": to_svg, "html": to_html, "dot": to_dot, "cell": to_cell}[form](picture(tape, group))
    if path is not None:
        Path(path).write_text(content, encoding="utf-8")
    return content


def picture(tape: Tape, group: str | None = None) -> Picture:
    """Return the picture of a tape: a box for each operation, or (by default above 2000 operations) for each source
    line.

    Raises ArgumentError for a group other than "operation", "line" or None, and for "operation" if the picture would be
    too large.
    """
    if group is not None and group not in GROUPS:
        raise ArgumentError(f"there is no group {group!r}", try_=f"one of {', '.join(map(repr, GROUPS))}")
    if group == "line" or (group is None and len(tape) > LIMIT):
        return by_lines(tape)
    found = fold(tape)
    if len(found.boxes) <= MOST_BOXES and all(work <= most for work, most in zip(layout_work(found), MOST_WORK)):
        return found
    if group is None:
        return by_lines(tape)
    raise ArgumentError(f"a picture of {len(found.boxes)} operations and so many long arrows would be unreadable and "
                        "slow to draw", try_='group="line", or tape.to_networkx()')
