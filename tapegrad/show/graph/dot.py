"""A picture in Graphviz's DOT language."""

from __future__ import annotations

import re

from tapegrad.show.graph.picture import Arrow, Box, Picture
from tapegrad.show.graph.svg import HUES

_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")


def to_dot(picture: Picture) -> str:
    """Return DOT source; `dot -Tsvg` draws the reverse sweep upwards beside the forward one."""
    lines = ["digraph tape {", f"  graph [label={quote(picture.title)} labelloc=t labeljust=l fontname=monospace "
                               "fontsize=12 newrank=true]",
             '  node [shape=box style="rounded,filled" fillcolor=white fontname=monospace fontsize=11]',
             '  edge [color="#8a93a3" arrowsize=0.7]']
    lines += [_node(box) for box in picture.boxes.values()]
    lines += [_edge(picture, arrow) for arrow in picture.arrows]
    lines += [f"  {{rank=same; n{box.beside}; n{box.key}}}" for box in _beside(picture)]
    return "\n".join([*lines, "}"]) + "\n"


def quote(value: str) -> str:
    r"""Return text as a DOT string in which Graphviz's escapes are literal.

    >>> print(quote('a "b" \\N'))
    "a \"b\" \\N"
    """
    safe = _FORBIDDEN.sub("\ufffd", value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{safe}"'


def _node(box: Box) -> str:
    label = f"{box.title}\n{box.detail}" if box.detail else box.title
    shape = " shape=oval" if box.role in ("input", "gradient", "seed") else ""
    width = f" penwidth={2.5 if box.marked or box.role == 'gradient' else 1.3}"
    hue = HUES.get(box.role, "#5b6270")
    return f'  n{box.key} [label={quote(label)} tooltip={quote(box.hover)} color="{hue}"{shape}{width}]'


def _edge(picture: Picture, arrow: Arrow) -> str:
    ends, options = (arrow.tail, arrow.head), []
    if picture.saved(arrow):
        options = ["style=dashed", "constraint=false"]
    elif picture.boxes[arrow.head].reverse:
        ends, options = (arrow.head, arrow.tail), ["dir=back"]  # ranked in reverse
    shown = f" [{' '.join(options)}]" if options else ""
    return f"  n{ends[0]} -> n{ends[1]}{shown}"


def _beside(picture: Picture) -> list[Box]:
    """Return, for each forward box, the last reverse box that belongs to it."""
    found = {box.beside: box for box in picture.boxes.values() if box.beside is not None}
    return list(found.values())
