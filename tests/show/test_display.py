"""What a notebook shows of a report: colours, and the same text as plain text."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.golden.programs import f


def reports() -> dict[str, Any]:
    tape = tg.gradtape(f, 2.0, 3.0)
    with np.errstate(all="ignore"):
        explained, found = tg.explain(np.log, 0.0), tg.gradtape(np.log, 0.0).find("inf")
    flat = tg.primitivize(tape)
    return {"explain": explained, "find": found, "step": tape.step(2.0, 3.0), "profile": tape.profile(), "diff": flat.diff(tg.optimise(flat))}


@pytest.mark.parametrize("name", ["explain", "find", "step", "profile", "diff"])
def test_a_report_displays_itself(name: str) -> None:
    report = reports()[name]
    bundle = report._repr_mimebundle_()
    assert bundle["text/plain"] == str(report) and set(bundle) == {"text/plain", "text/html"}
    page = bundle["text/html"]
    assert page.startswith("<pre style=") and "<span style=" in page and "<script" not in page
    words = re.findall(r"\w+", unescape(re.sub("<[^>]*>", "", page)))
    assert set(re.findall(r"\w+", str(report).splitlines()[0])) <= set(words)


def test_markup_in_a_program_stays_text() -> None:
    with np.errstate(all="ignore"):
        report = tg.explain(lambda x: np.log(x) * {"<b>": 1.0}["<b>"], 0.0)  # <script>
    assert "<script>" not in report._repr_mimebundle_()["text/html"] and "&lt;b&gt;" in report._repr_mimebundle_()["text/html"]


def test_the_text_of_a_long_tape_leaves_its_middle_out() -> None:
    def power(x: float) -> float:
        for _ in range(2500):
            x = x * 1.001
        return x
    tape = tg.trace(power, 1.0)[1]
    lines, whole = str(tape).splitlines(), tape.format().splitlines()
    assert len(whole) == 2503 and len(lines) == 302 and lines[201] == "... 2,202 of 2,502 operations left out, see tape.format()"
    assert [line.split() for line in lines[1:201] + lines[202:]] == [line.split() for line in whole[1:201] + whole[-100:]]
