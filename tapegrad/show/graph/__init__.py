"""A tape as a graph: for networkx, for Graphviz, and as a picture that is drawn without it."""

from __future__ import annotations

from pathlib import Path

from tapegrad.tape.tape import Tape


def draw(tape: Tape, form: str, path: str | Path | None = None, group: str | None = None) -> str:
    """Return the picture of a tape as "svg", "html", "dot", or "cell" (what a notebook shows), and write it to `path`.

    Raises ArgumentError for a group other than "operation", "line" or None.
    """
    from tapegrad.show.graph.dot import to_dot
    from tapegrad.show.graph.page import to_cell, to_html
    from tapegrad.show.graph.picture import picture
    from tapegrad.show.graph.svg import to_svg
    content = {"svg": to_svg, "html": to_html, "dot": to_dot, "cell": to_cell}[form](picture(tape, group))
    if path is not None:
        Path(path).write_text(content, encoding="utf-8")
    return content
