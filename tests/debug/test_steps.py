"""A tape step by step: what each step says, and the page that plays them, in a browser where there is one."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tapegrad as tg
from tests.golden.programs import f, network, wave

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def titles(tape: tg.Tape) -> list[str]:
    return [step.title for step in tape.steps()]


@pytest.mark.quick
def test_three_operations_are_three_steps_of_each_phase() -> None:
    steps = tg.gradtape(f, 2.0, 3.0).steps()
    assert [step.phase for step in steps] == ["trace"] * 4 + ["triples"] * 3 + ["sweep"] * 5
    assert [step.title for step in steps][-5:] == [
        "The seed", "Back through %11 = a / %8", "Back through %8 = a + %5", "Back through %5 = b · b", "The gradient"]


def test_a_step_says_the_value_the_derivative_and_where_a_cotangent_comes_from() -> None:
    steps = list(tg.gradtape(f, 2.0, 3.0).steps())
    assert steps[2].lines[0] == "its value is 11" and "return a / (a + b*b)" in steps[2].lines[1]
    assert steps[6].lines == ("d%11 = da/%8 − d%8·a/%8²",)
    assert steps[9].lines[-1] == "da = 0.0909091 (from ÷) + −0.0165289 (from +) = 0.0743802"
    assert steps[-1].lines == ("da = 0.0743802", "db = −0.0991736")


def test_a_sum_of_many_is_told_once() -> None:
    last = list(tg.gradtape(lambda a: a * a + 3 * a + a / 2, 2.0).steps())[-2]
    assert [line for line in last.lines if line.startswith("da = ")] == ["da = 0.5 (from ÷) + 3 (from ×) + 2 (from ×) + 2 (from ×) = 7.5"]


def test_the_picture_says_where_a_cotangent_comes_from() -> None:
    boxes = tg.gradtape(f, 2.0, 3.0).steps().picture.boxes.values()
    assert {"da ← from ÷ + from +", "db ← from × + from ×"} <= {box.title for box in boxes}
    assert "pullback of divide: 0.0909, −0.0165" in {box.detail for box in boxes}


def test_other_tapes() -> None:
    assert titles(tg.trace(f, 2.0, 3.0)[1])[1:] == ["%4 = b · b", "%5 = a + %4", "%6 = a / %5"]
    assert titles(tg.primitivize(tg.gradtape(f, 2.0, 3.0)))[-1] == "The gradient"
    assert " = dw1 @ x + w1 @ dx" in str(tg.gradtape(network, np.ones((4, 3)), np.ones((2, 4)), np.ones(3)).steps())
    wide = tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))
    assert "guarded" in str(wide.steps()) and titles(wide)[-1] == "The gradient"
    assert titles(tg.gradtape(lambda a: a, 1.0))[-1] == "The gradient" and len(tg.Tape().steps()) == 1


@pytest.mark.parametrize("fn", [
    lambda x: np.sort(x).sum(), lambda x: np.cumsum(x)[-1], lambda x: np.linalg.norm(x), lambda x: np.where(x > 1, x, 0.0).max(),
    lambda x: tg.checkpoint(np.sin)(x).sum(), lambda x: np.einsum("i,i", x, x)])
def test_each_box_of_any_tape_appears_once(fn: Any) -> None:
    steps = tg.gradtape(fn, np.array([1.0, 2.0])).steps()
    born = [key for step in steps for key in step.appear]
    assert sorted(set(born)) == sorted(steps.picture.boxes) and {key for step in steps for key in step.lit} <= set(born)


def test_a_long_tape_is_refused() -> None:
    tape = tg.gradtape(lambda x: sum(x * i for i in range(400)), 2.0)
    with pytest.raises(tg.ArgumentError, match="too many steps"):
        tape.show("steps")


def test_formats(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tape = tg.gradtape(f, 2.0, 3.0)
    tape.show("steps")
    assert "Back through %5 = b · b" in capsys.readouterr().out
    assert "da = 0.0909091 (from /) + -0.0165289 (from +)" in tape.format("steps")
    paths = tape.steps().save(tmp_path)
    assert len(paths) == 12
    for path in paths:
        ElementTree.fromstring(path.read_text("utf-8"))
    assert "Back through %5 = b · b" in paths[10].read_text("utf-8") and "data-key" in paths[0].read_text("utf-8")
    assert tape.steps()._repr_mimebundle_()["text/html"].startswith("<iframe sandbox")
    assert tape.steps().to_html(tmp_path / "page.html") == (tmp_path / "page.html").read_text("utf-8")


PLAY = """
const log = [], note = () => log.push(document.querySelector("li.here h2").textContent + " | " + document.querySelectorAll(".box.ahead").length);
const press = key => { document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})); note(); };
note(); press("ArrowRight"); press(" "); press("End"); press("ArrowLeft"); press("Home"); press("ArrowLeft");
document.getElementById("next").click(); note();
document.querySelectorAll("#phases button")[2].click(); note();
document.querySelector('.box[data-key="4"]').dispatchEvent(new MouseEvent("click", {bubbles: true})); note();
document.body.dataset.log = log.join(" ; ");
"""


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_a_browser_prints_a_page_for_each_step(tmp_path: Path) -> None:
    tg.gradtape(f, 2.0, 3.0).steps().to_html(tmp_path / "page.html")
    subprocess.run([str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--print-to-pdf={tmp_path / 'steps.pdf'}",
                    (tmp_path / "page.html").as_uri()], capture_output=True, timeout=60, check=True)
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "steps.pdf").read_bytes())) == 12


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_a_browser_plays_the_page(tmp_path: Path) -> None:
    page = tg.gradtape(f, 2.0, 3.0).steps().to_html()
    assert re.search(r"script-src 'sha256-", page)
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)  # for the script of this test
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", f"<script>{PLAY}</script></body>"), encoding="utf-8")
    done = subprocess.run([str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()],
                          capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r'data-log="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-500:]
    assert html.unescape(found[1]).split(" ; ") == [
        "The arguments | 9", "%5 = b · b | 8", "%8 = a + %5 | 7", "The gradient | 0", "Back through %5 = b · b | 0", "The arguments | 9",
        "The arguments | 9", "%5 = b · b | 8", "The seed | 5", "%5 = b · b | 8"]
