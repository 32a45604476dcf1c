"""TAPEGRAD_CHECK: what a pass breaks, and what a compiled call gets wrong, is said at once."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile import cache
from tapegrad.optimise import checked, pipeline

X = np.array([0.3, 1.2, -0.7])


def test_a_pass_that_breaks_a_tape_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(tape: Any) -> Any:
        new = tg.optimise(tape, [])
        new.ops.reverse()
        return new
    monkeypatch.setattr(pipeline, "CHECKED", True)
    with pytest.raises(checked.CheckFailed, match="the pass swapped"):
        tg.optimise(tg.trace(lambda x: x * 2 + 1, X)[1], [swapped])


@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad])
def test_a_compiled_call_that_differs_is_found(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = make(lambda x: np.sum(np.sin(x) * x), warmup=1, mode="numpy")
    monkeypatch.setattr(cache, "CHECKED", True)
    right = [step(X), step(X)][1]
    monkeypatch.setattr(step._entries[1][0], "run", lambda x: (right[0] + 0.1, right[1]) if isinstance(right, tuple) else right + 0.1)
    with pytest.raises(checked.CheckFailed, match="but a new trace"):
        step(X)


@pytest.mark.parametrize(("a", "b", "agree"), [
    (1.0, 1.0 + 1e-9, True), (1.0, 1.01, False), (np.float32(1.0), np.float32(1.0001), True), (np.nan, np.nan, True), (np.inf, 1.0, False),
    (1, 2, False), ("a", "a", True), (X, X[:2], False), ([X, 1e9], [X + 1e-9, 1e9], True), (np.zeros(0), np.zeros(0), True)])
def test_what_agrees(a: Any, b: Any, agree: bool) -> None:
    if agree:
        checked.check_call("f", a, b)
    else:
        with pytest.raises(checked.CheckFailed):
            checked.check_call("f", a, b)


def test_it_is_asked_for_in_the_environment() -> None:
    code = ("import numpy as np, tapegrad as tg; from tapegrad.optimise.pipeline import CHECKED\n"
            "f = tg.value_and_grad(lambda x: np.sum(np.exp(x)), warmup=1)\nfor k in range(4): f(np.arange(3.0) + k)\nprint(CHECKED, f.stats.hits)")
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TAPEGRAD_CHECK": "1"}, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "4"] or run.stdout.split() == ["True", "3"], run.stdout
