"""play: the steps of a tape, as a page that plays them and as single pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.show.graph.page import MOST, page
from tapegrad.show.graph.page import cell as in_cell
from tapegrad.show.graph.picture import Picture
from tapegrad.show.graph.svg import text, to_svg

_BELOW = 240  # pixels of a notebook's cell under the picture


def to_slide(picture: Picture, steps: Sequence[Any], i: int) -> str:
    """Draw step `i`: boxes that have not appeared are pale, the step's boxes have a thick frame, and its text stands
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
    """Return a page that plays the steps and needs no network; with `cell`, in a frame for a notebook."""
    items = "\n".join(
        f'<li data-phase="{step.phase}" data-appear="{" ".join(map(str, step.appear))}" '
        f'data-lit="{" ".join(map(str, step.lit))}"><h2>{text(step.title)}</h2>'
        + "".join(f"<p>{text(line)}</p>" for line in step.lines) + "</li>" for step in steps)
    found = page(picture, f"{picture.title}, step by step", ("page.css", "steps.css", "steps.js"), """\
<button id="first" title="to the first step (Home)" aria-label="first step">|◀</button>
<button id="before" title="one step back (←)" aria-label="step back">◀</button>
<button id="next" title="one step on (→ or space)" aria-label="step on">▶</button>
<button id="last" title="to the last step (End)" aria-label="last step">▶|</button>
<span id="phases"></span>
""", f'<ol id="steps" aria-live="polite">\n{items}\n</ol>\n<div id="sheets"></div>')
    return in_cell(picture, found, _BELOW, MOST + _BELOW) if cell else found
