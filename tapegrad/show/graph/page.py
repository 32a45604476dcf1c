"""A picture as a page: one self-contained HTML file with search, details and dependencies."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from tapegrad.show.graph.layout import layout
from tapegrad.show.graph.picture import Picture
from tapegrad.show.graph.svg import text, to_svg

_BAR, MOST = 52, 680  # pixels: the page's header; the greatest height of a notebook's cell


def to_html(picture: Picture) -> str:
    """Return a page with search, and with a card for details."""
    return page(picture, picture.title, ("page.css", "page.js"), """\
<input id="query" type="search" placeholder="search: op, %4, line, type … ( / )" aria-label="search the operations"/>
<button id="out" title="smaller" aria-label="smaller">−</button>
<button id="fit" title="the whole picture, or its full size" aria-label="fit">fit</button>
<button id="in" title="larger" aria-label="larger">+</button>
""", '<pre id="card" hidden="hidden"></pre>')


def page(picture: Picture, title: str, names: Sequence[str], header: str, below: str) -> str:
    """Return a page of a picture that needs no other file and no network, and runs no script but its own. `names` are
    the files of its style sheets and, last, of its script.
    """
    *sheets, script = (files("tapegrad.show.graph").joinpath(name).read_text("utf-8") for name in names)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{text(title)}</title>
<style>{"".join(sheets)}</style>
</head>
<body>
<header>
{header}<span id="said" role="status"></span>
</header>
<main id="view">
{to_svg(picture)}</main>
{below}
<script>{script}</script>
</body>
</html>
"""


def to_cell(picture: Picture) -> str:
    """Return a notebook's cell: the page in a frame of its own, so that styles and names do not clash."""
    return cell(picture, to_html(picture), _BAR, MOST)


def cell(picture: Picture, page: str, below: int, most: int) -> str:
    """Return a page as a notebook's cell, as high as its picture plus `below` pixels, at most `most`."""
    height = min(round(layout(picture).height) + 22 + below, most)
    style = f"width:100%;height:{height}px;border:0;border-radius:8px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page, quote=True)}"></iframe>'
