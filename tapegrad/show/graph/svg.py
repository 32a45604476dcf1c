"""A picture as SVG: one self-contained file, light or dark as the reader's screen is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from tapegrad.show.graph.layout import HEIGHT, MARGIN, Layout, Placed, Route, layout
from tapegrad.show.graph.picture import Arrow, Box, Picture
from tapegrad.show.line import shorten
from tapegrad.show.styles import STYLES

# The hues of the terminal's styles (Okabe and Ito's); a forward operation has the triple's.
HUES = {role: STYLES[style].split()[-1] for role, style in {
    "operation": "triple", "seed": "seed", "pullback": "pullback", "accumulation": "accumulation",
    "gradient": "gradient", "guard": "guard"}.items()}
LEGEND = {"input": "input", "operation": "operation", "constant": "no gradient passes", "seed": "seed",
          "pullback": "pullback",
          "accumulation": "accumulation", "gradient": "gradient"}
LINE = 22  # pixels from one line of text to the next
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
_HEADS = {"down": "-4-7h8l-4 7z", "up": "-4 7h8l-4-7z", "right": "-7-4v8l7-4z"}

STYLE = """
svg.tapegrad{--paper:#fff;--ink:#1c1f24;--dim:#5b6270;--wire:#8a93a3;--tint:.13;background:var(--paper);
font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
@media(prefers-color-scheme:dark){svg.tapegrad{--paper:#15181d;--ink:#e9ecf1;--dim:#a3abb8;--wire:#727c8c;--tint:.22}}
.tapegrad .paper{fill:var(--paper)}
.tapegrad text{fill:var(--ink);font-size:13px;text-anchor:middle}
.tapegrad .detail,.tapegrad .legend text{fill:var(--dim);font-size:11px}
.tapegrad .heading{font-size:14px;font-weight:600;text-anchor:start}
.tapegrad .side{fill:var(--dim);font-size:12px;letter-spacing:.08em}
.tapegrad .legend text{text-anchor:start}
.tapegrad .back{fill:var(--paper)}
.tapegrad .face{fill:var(--hue);fill-opacity:var(--tint);stroke:var(--hue);stroke-width:1.5}
.tapegrad .marked .face{stroke-width:3}
.tapegrad .input,.tapegrad .constant{--hue:var(--dim)}
.tapegrad .constant .face{fill-opacity:.04;stroke-dasharray:2 2}
.tapegrad .gradient .face{stroke-width:2.5}
.tapegrad .arrow path{fill:none;stroke:var(--wire);stroke-width:1.4}
.tapegrad .arrow .tip{fill:var(--wire);stroke:none}
.tapegrad .saved path{stroke-dasharray:4 3;stroke-width:1.1;opacity:.8}
.tapegrad .guarded{fill:var(--paper);stroke:#d55e00;stroke-width:1.5}
""" + "\n".join(f".tapegrad .{role}{{--hue:{hue}}}" for role, hue in HUES.items()) + "\n"


def text(value: str) -> str:
    """Return text that is safe inside markup: escaped, without characters that XML forbids, without bidirectional
    controls.

    >>> text('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return escape(_FORBIDDEN.sub("\ufffd", value), quote=True)


def to_svg(picture: Picture, style: str = "", below: Sequence[str] = ()) -> str:
    """Return a picture as SVG, with `style` rules besides its own, and lines of text `below` it."""
    placed, heading = layout(picture), shorten(picture.title, 100, "…")
    lines = [shorten(line, 110, "…") for line in below]
    width = max(placed.width, _legend(picture, 0)[1], *(2 * MARGIN + 8.5 * len(line) for line in (heading, *lines)))
    end = placed.height + 22
    height = end + (LINE * len(lines) + MARGIN if lines else 0)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="tapegrad" role="img" '
        f'width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{text(picture.title)}</title>", f"<style>{STYLE}{style}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}" rx="8"/>',
        f'<text class="heading" x="{MARGIN:.0f}" y="28">{text(heading)}</text>', *_sides(picture, placed),
        '<g class="arrows">', *(_arrow(picture, arrow, route) for arrow, route in placed.routes.items()), "</g>",
        '<g class="boxes">', *(_box(box, placed.boxes[key]) for key, box in picture.boxes.items()), "</g>",
        _legend(picture, end - 14)[0], *(_line(line, i, end) for i, line in enumerate(lines)), "</svg>"]
    return "\n".join(parts) + "\n"


def _line(line: str, i: int, end: float) -> str:
    """Return a line of text below the picture; the first is a heading."""
    y = end + LINE * (i + 1)
    return f'<text class="{"told" if i else "heading"}" x="{MARGIN:.0f}" y="{y:.0f}">{text(line)}</text>'


def _sides(picture: Picture, placed: Layout) -> list[str]:
    if not picture.reverse:
        return []
    return [f'<text class="side" x="{x:.0f}" y="56">{name}</text>'
            for x, name in zip(placed.middles, ("↓ forward", "reverse ↑"))]


def _arrow(picture: Picture, arrow: Arrow, route: Route) -> str:
    kind = "arrow saved" if picture.saved(arrow) else "arrow"
    thick = f' style="stroke-width:{min(1.4 + 0.5 * len(str(arrow.times)), 4):.1f}"' if arrow.times > 9 else ""
    said = f"<title>{arrow.times} times</title>" if arrow.times > 1 else ""
    x, y = route.tip
    return (f'<g class="{kind}" data-tail="{arrow.tail}" data-head="{arrow.head}">{said}<path d="{route.path}"{thick}/>'
            f'<path class="tip" d="M{x:.1f} {y:.1f}m{_HEADS[route.pointing]}"/></g>')


def _box(box: Box, at: Placed) -> str:
    classes = " ".join(filter(None, ["box", box.role, "marked" if box.marked else ""]))
    round_ = HEIGHT / 2 if box.role in ("input", "gradient", "seed") else 7
    shape = (f'x="{at.x - at.width / 2:.1f}" y="{at.top:.1f}" width="{at.width:.1f}" height="{at.height:.0f}" '
             f'rx="{round_:.0f}"')
    middle = at.y + (4.5 if not box.detail else -3)
    guard = (f'<path class="guarded" d="M{at.x + at.width / 2 - 14:.1f} {at.top:.1f}l5-5 5 5-5 5z"/>' if box.guards
             else "")
    detail = f'<text class="detail" x="{at.x:.1f}" y="{at.y + 13:.1f}">{text(box.detail)}</text>' if box.detail else ""
    return (f'<g class="{classes}" data-key="{box.key}"><title>{text(box.hover)}</title>'
            f'<rect class="back" {shape}/><rect class="face" {shape}/>'
            f'<text x="{at.x:.1f}" y="{middle:.1f}">{text(box.title)}</text>{detail}{guard}</g>')


def _legend(picture: Picture, y: float) -> tuple[str, float]:
    """Return the legend of the roles in a picture, and its width."""
    roles = {box.role for box in picture.boxes.values()}
    parts, x = [], MARGIN
    for role in (role for role in LEGEND if role in roles):
        round_ = 5 if role in ("input", "gradient", "seed") else 2
        parts.append(f'<g class="{role}">'
                     f'<rect class="face" x="{x:.0f}" y="{y - 9:.0f}" width="16" height="10" rx="{round_}"/>'
                     f'<text x="{x + 21:.0f}" y="{y:.0f}">{LEGEND[role]}</text></g>')
        x += 36 + 6.7 * len(LEGEND[role])
    if any(box.guards for box in picture.boxes.values()):
        parts.append(f'<path class="guarded" d="M{x:.0f} {y - 4:.0f}l5-5 5 5-5 5z"/>'
                     f'<text x="{x + 15:.0f}" y="{y:.0f}">guarded</text>')
        x += 30 + 6.7 * 7
    return f'<g class="legend">{"".join(parts)}</g>', x + MARGIN
