"""play: the steps of a tape as a page that plays them, and as one picture each."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from tapegrad.show.graph.layout import layout
from tapegrad.show.graph.page import MOST
from tapegrad.show.graph.picture import Picture
from tapegrad.show.graph.svg import text, to_svg

_BELOW = 240  # pixels of a notebook's cell under the picture


def to_slide(picture: Picture, steps: Sequence[Any], i: int) -> str:
    """Draw step `i`: boxes that have not appeared are pale, those in question have a thick frame, the words stand
    below.
    """
    seen = {key for step in steps[:i + 1] for key in step.appear}
    ahead = [key for key in picture.boxes if key not in seen]
    lit = [key for key in picture.boxes if key in steps[i].lit]
    pale = [f'.tapegrad [data-key="{key}"]' for key in ahead]
    pale += [f'.tapegrad [data-{end}="{key}"]' for key in ahead for end in ("tail", "head")]
    style = ".tapegrad .told{font-size:13px;text-anchor:start}\n" + (",".join(pale) + "{opacity:.13}\n" if pale else "")
    style += ",".join(f'.tapegrad [data-key="{key}"] .face' for key in lit) + "{stroke-width:3.5}\n" if lit else ""
    step = steps[i]
    below = [f"{step.phase}, step {i + 1} of {len(steps)}: {step.title}", *step.lines]
    return to_svg(picture, style, below)


def to_page(picture: Picture, steps: Sequence[Any], cell: bool = False) -> str:
    """Return a page that plays the steps, which needs no network; for a notebook's `cell` in a frame of its own."""
    sheet, own, script = (files("tapegrad.show.graph").joinpath(name).read_text("utf-8")
                          for name in ("page.css", "steps.css", "steps.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    items = "\n".join(
        f'<li data-phase="{step.phase}" data-appear="{" ".join(map(str, step.appear))}" '
        f'data-lit="{" ".join(map(str, step.lit))}"><h2>{text(step.title)}</h2>'
        + "".join(f"<p>{text(line)}</p>" for line in step.lines) + "</li>" for step in steps)
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{text(picture.title)}, step by step</title>
<style>{sheet}{own}</style>
</head>
<body>
<header>
<button id="first" title="to the first step (Home)" aria-label="first step">|◀</button>
<button id="before" title="one step back (←)" aria-label="step back">◀</button>
<button id="next" title="one step on (→ or space)" aria-label="step on">▶</button>
<button id="last" title="to the last step (End)" aria-label="last step">▶|</button>
<span id="phases"></span>
<span id="said" role="status"></span>
</header>
<main id="view">
{to_svg(picture)}</main>
<ol id="steps" aria-live="polite">
{items}
</ol>
<div id="sheets"></div>
<script>{script}</script>
</body>
</html>
"""
    if not cell:
        return page
    height = min(round(layout(picture).height) + 22 + _BELOW, MOST + _BELOW)
    frame = f"width:100%;height:{height}px;border:0;border-radius:8px"
    return f'<iframe sandbox="allow-scripts" style="{frame}" srcdoc="{escape(page, quote=True)}"></iframe>'
