"""Why a compiled function traces: explain(), TAPEGRAD_LOG=retrace, and one warning where it never runs compiled."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile import cache

X = np.ones(3)


@pytest.fixture(autouse=True)
def _usual_warmup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WARMUP", None)


SCALE = 1.0
MODES = {"rate": 1.0}


def scaled(x: Any) -> Any:
    return np.sum(x * SCALE * MODES["rate"])


def branched(x: Any) -> Any:
    return x * 2 if x > 0 else x * 3


class Shy:
    def __init__(self, k: float) -> None:
        self.k = k

    def __repr__(self) -> str:
        raise RuntimeError("no")


def why(step: Any) -> list[str]:
    """Return the reasons in order, without the program's line."""
    return [str(reason).partition(", at ")[0] for reason in step.explain().last]


COUNT = [0.0]
FIRST, SECOND = "the first call", "a path's second call is traced and compared with its first"


@pytest.mark.quick
@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad])
def test_what_was_another(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = make(scaled, warmup=None)
    step(X)
    monkeypatch.setattr(f"{__name__}.SCALE", 2.0)
    step(X)
    monkeypatch.setitem(MODES, "rate", 3.0)
    step(X)
    step(X[:2])
    step(1.0)
    if make is tg.compile:
        step(x=X)
    assert why(step)[0] == FIRST and why(step)[1] == f"SCALE of {__name__} was 1.0, and is 2.0"
    assert why(step)[2].startswith("MODES") and why(step)[2].endswith(": its content is another")
    assert why(step)[3:5] == ["the kind of x was float64[3], and is float64[2]", "the kind of x was float64[2], and is float"]
    assert make is not tg.compile or why(step)[5].startswith("how many arguments there are, their keywords")
    assert step.stats.calls == step.stats.hits + step.stats.traces == len(why(step))


def test_a_branch_names_its_line_and_a_path_says_how_far_it_is() -> None:
    step = tg.compile(branched, warmup=None)
    for x in (1.0, -1.0, 1.0):
        step(x)
    assert why(step) == [FIRST, "the branch that was taken was bool == True, and is bool == False", SECOND]
    assert "return x * 2 if x > 0 else x * 3" in str(step.explain().last[1])
    assert step.explain().paths == ["(x: float) is observed by its next call, and compiled by the one after it"] * 2
    step(1.0)
    assert "(x: float) has a tape, which its next call compiles" in step.explain().paths
    step(1.0)
    assert "(x: float) runs compiled" in step.explain().paths
    text = str(step.explain())
    assert text.startswith("branched: 5 calls, of which 1 ran compiled and 4 were traced") and f"2  {SECOND}" in text
    late = tg.compile(branched, warmup=3)
    late(1.0)
    assert late.explain().paths == ["(x: float) is traced until 3 of its calls were traced (1 so far)"]  # type: ignore[attr-defined]


def test_a_long_path_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def long(x: Any) -> Any:
        for i in range(400):
            x = np.sin(x) * 1.01 if i % 7 in (1, 4) else x + np.cos(x) if i % 5 else x * x
        return x
    step = tg.value_and_grad(long)
    monkeypatch.setattr(type(step.backend), "seconds_to_compile", lambda self, length: 1e3)  # type: ignore[attr-defined]
    for _ in range(3):
        step(0.5)
    assert why(step) == [FIRST, *["its path is long, and compiled once its traced calls have taken as long as that"] * 2]
    [path] = step.explain().paths  # type: ignore[attr-defined]
    assert path.startswith("(x: float) is traced until its traced calls have taken 1e+03 s, as compiling will (0.")


def test_a_refused_path_says_why() -> None:
    def counting(x: Any) -> Any:
        COUNT[0] += 1
        return x * COUNT[0] if x > 0 else x
    step = tg.value_and_grad(counting)
    with pytest.warns(tg.RetraceWarning):
        for _ in range(4):
            step(2.0)
    [path] = step.explain().paths  # type: ignore[attr-defined]
    assert path.startswith("(x: float) is traced for good: ") and why(step)[-1] in path


def test_the_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    step = tg.compile(lambda x: x * 2)
    step(1.0)
    monkeypatch.setenv("TAPEGRAD_LOG", "retrace")
    step(X)
    step(1.0)
    assert capsys.readouterr().err == ("tapegrad: <lambda> traced call 2: the kind of x was float, and is float64[3]\n"
                                       f"tapegrad: <lambda> traced call 3: {SECOND}\n")


@pytest.mark.parametrize(("calls", "call", "what", "cure"), [
    (12, lambda step, k, patch: (patch.setattr(f"{__name__}.SCALE", float(k)), step(X)), r"SCALE of .* was 9\.0, and is 10\.0", "pass it as an argument"),
    (32, lambda step, k, patch: step(np.ones(k)), r"the kind of x was float64\[29\], and is float64\[30\]", "few kinds and shapes"),
])
def test_a_function_that_never_runs_compiled_warns_once(calls: int, call: Any, what: str, cure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = tg.value_and_grad(scaled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(2 * calls):
            call(step, k, monkeypatch)
            if k == calls:
                [warning] = caught
    assert len(caught) == 1 and step.stats.hits == 0  # type: ignore[attr-defined]
    text = str(warning.message)
    assert re.search(what, text) and cure in text and warning.filename == __file__


def test_reasons_show_no_error_of_the_program_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [Shy(1.0)]
    step = tg.compile(lambda x: x * held[0].k)
    for k in range(4):
        held[0] = Shy(float(k))
        assert step(2.0) == 2.0 * k
    assert step.explain()  # type: ignore[attr-defined]
