"""A picture as a page: one self-contained HTML file with search, details and what depends on what."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from tapegrad.show.graph.layout import layout
from tapegrad.show.graph.picture import Picture
from tapegrad.show.graph.svg import text, to_svg

_BAR, MOST = 52, 680  # pixels: the page's header; how high a notebook's cell gets


def to_html(picture: Picture) -> str:
    """Return a page that needs no other file and no network, and that runs no script but its own."""
    style, script = (files("tapegrad.show.graph").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{text(picture.title)}</title>
<style>{style}</style>
</head>
<body>
<header>
<input id="query" type="search" placeholder="search: op, %4, line, type … ( / )" aria-label="search the operations"/>
<button id="out" title="smaller" aria-label="smaller">−</button>
<button id="fit" title="the whole picture, or its full size" aria-label="fit">fit</button>
<button id="in" title="larger" aria-label="larger">+</button>
<span id="said" role="status"></span>
</header>
<main id="view">
{to_svg(picture)}</main>
<pre id="card" hidden="hidden"></pre>
<script>{script}</script>
</body>
</html>
"""


def to_cell(picture: Picture) -> str:
    """Return what a notebook shows: the page in a frame of its own, so that neither's styles
    and names touch the other's.
    """
    height = min(round(layout(picture).height) + 22 + _BAR, MOST)
    page = escape(to_html(picture), quote=True)
    style = f"width:100%;height:{height}px;border:0;border-radius:8px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
