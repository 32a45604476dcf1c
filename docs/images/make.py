"""Make the screenshots of docs/views.md: python docs/images/make.py CHROMIUM [SITE].

CHROMIUM is the browser's path, SITE a folder that holds the site that was built, for its front page.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import tapegrad as tg
from tapegrad.show.display import as_html
from tapegrad.show.view import View

HERE = Path(__file__).parent


def f(a: float, b: float) -> float:
    c = b * b
    return a / (a + c)


def loss(w: Any, x: Any) -> Any:
    hidden = np.tanh(x @ w)
    scores = hidden.sum(axis=1)
    return np.log(np.exp(scores).sum())


def on_terminal(shown: Any, width: int) -> str:
    """Return what a terminal of a width shows, as SVG in a page."""
    console = Console(record=True, width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(shown)
    return f"<body style='margin:0'>{console.export_svg(title=f'{width} columns')}</body>"


def shot(browser: str, page: Path | str, name: str, size: tuple[int, int], *options: str) -> None:
    """Take a picture of a page."""
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(page, str):
            path = Path(folder, "page.html")
            path.write_text(f"<!DOCTYPE html><meta charset='utf-8'>{page}", encoding="utf-8")
        else:
            path = page
        target = options[0] if options and options[0].startswith("#") else ""
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        f"--window-size={size[0]},{size[1]}", *(option for option in options if option != target),
                        f"--screenshot={HERE / name}.png", path.absolute().as_uri() + target],
                       capture_output=True, check=True, timeout=120)


def main(browser: str, site: str = "") -> None:
    tape = tg.gradtape(f, 2.0, 3.0)
    for width, size in ((60, (780, 850)), (100, (1260, 820)), (160, (1990, 820))):
        shot(browser, on_terminal(View(tape), width), f"terminal-{width}", size)
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((3, 4)), rng.standard_normal((50, 3))
    explained, profiled = tg.explain(loss, w, x), tg.gradtape(loss, w, x).profile()
    reports = ("tg.explain(loss, w, x)", explained), ("tg.gradtape(loss, w, x).profile()", profiled)
    cells = "".join(f"<div style='margin:14px'><pre style='color:#555'>{code}</pre>{as_html(report)}</div>"
                    for code, report in reports)
    shot(browser, cells, "notebook", (900, 610))
    with tempfile.TemporaryDirectory() as folder:
        page, steps = Path(folder, "tape.html"), Path(folder, "steps.html")
        tape.to_html(page)
        tape.steps().to_html(steps)
        shot(browser, page, "page-light", (900, 520))
        shot(browser, page, "page-dark", (900, 520), "--blink-settings=preferredColorScheme=0")
        shot(browser, steps, "steps", (900, 720), "#11")
    if site:
        shot(browser, Path(site, "index.html"), "site", (1200, 900))


if __name__ == "__main__":
    main(*sys.argv[1:])
