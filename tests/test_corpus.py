"""The corpus: its list, one script in its process, what a worker says of wrong and refused programs, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench.corpus import __main__ as corpus
from bench.corpus.case import Built, Case, case, load
from bench.corpus.worker import filled, flat, moved, outcome
from tapegrad.tree.copies import running


def test_the_list_needs_no_package() -> None:
    cases = load()
    assert len(cases) >= 140 and sum(case.package == "script" for case in cases.values()) == 40
    with pytest.raises(ValueError, match="two cases"):
        @case("filterpy")
        def kalman_likelihood() -> Built: ...


def test_each_script_has_modules() -> None:
    scripts = Path(corpus.__file__).parent / "scripts"
    assert all(len(list(folder.glob("*.py"))) >= 3 for folder in scripts.iterdir() if (folder / "main.py").exists())


@tg.primitive
def lossy(x: Any) -> Any:
    return x * x


@tg.rrule(lossy)
def _(x: Any) -> Any:
    return lossy(x), lambda dy: (3 * x * dy,)


def crash(x: Any) -> Any:
    if running.tracers:  # nothing of the program's own says that it is traced
        raise KeyError("no float")
    return x


@pytest.mark.parametrize(("f", "status"), [
    (lambda x: x * x, "works"), (lambda x: lossy(x), "wrong"), (lambda x: float(x) * 2, "refused"), (crash, "crashed"), (lambda x: x / 0, "broken")])
def test_what_comes_of_a_case(f: Any, status: str) -> None:
    found = outcome(Case("", "", lambda: (f, (1.5,))))["status"]
    assert found == status or (found, status) == ("slow", "works")


def test_arguments_are_taken_apart_and_filled_again() -> None:
    args = (1.0, [np.ones((2, 2)), 3.0])
    assert flat(args).tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, 3.0]
    again = filled(args, flat(args) * 2)
    assert again[0] == 2.0 and again[1][0].shape == (2, 2) and again[1][1] == 6.0
    assert moved(args, 0)[1][1] == 3.0 and moved(args, 1)[0] > 1.0


def test_a_run_is_printed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(corpus, "RESULTS", tmp_path)
    assert corpus.main(["--only", "script/kepler", "--save"]) == 0
    assert "1 of 1 work (100.0%)" in capsys.readouterr().out
    kept = json.loads((tmp_path / "corpus.json").read_text())
    assert kept["cases"][0]["name"] == "script/kepler" and kept["versions"]["numpy"] == np.__version__
    assert corpus.anonymous("at /a/b/site-packages/c.py:3 in f") == "at site-packages/c.py:3 in f"
