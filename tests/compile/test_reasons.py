"""Why a compiled function traces: explain(), TAPEGRAD_LOG, and one warning where it never runs compiled."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile import cache
from tapegrad.compile.native.backend import there_is

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
    assert why(step)[0] == FIRST and why(step)[1] == f"SCALE of {__name__}: was 1.0, now 2.0"
    assert why(step)[2].startswith("MODES") and why(step)[2].endswith(": its content has changed")
    assert why(step)[3:5] == ["the type or shape of x: was float64[3], now float64[2]", "the type or shape of x: was float64[2], now float"]
    assert make is not tg.compile or why(step)[5].startswith("the number of arguments, their keywords")
    assert step.stats.calls == step.stats.hits + step.stats.traces == len(why(step))


def test_a_branch_names_its_line_and_a_path_says_how_far_it_is() -> None:
    step = tg.compile(branched, warmup=None)
    for x in (1.0, -1.0, 1.0):
        step(x)
    assert why(step) == [FIRST, "the branch that was taken: was bool == True, now bool == False", SECOND]
    assert "return x * 2 if x > 0 else x * 3" in str(step.explain().last[1])
    assert step.explain().paths == ["(x: float) is observed by its next call, and compiled by the one after it"] * 2
    step(1.0)
    assert "(x: float) has a tape that its next call compiles" in step.explain().paths
    step(1.0)
    assert "(x: float) runs compiled" in step.explain().paths
    text = str(step.explain())
    assert text.startswith("branched: 5 calls, 1 compiled, 4 traced") and f"2  {SECOND}" in text
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
    assert why(step) == [FIRST, *["its path is long: it is compiled once tracing it has taken as long as compiling would"] * 2]
    [path] = step.explain().paths  # type: ignore[attr-defined]
    assert path.startswith("(x: float) is traced until its traced calls have taken 1e+03 s, the estimated time to compile it (0.")


def test_a_refused_path_says_why() -> None:
    def counting(x: Any) -> Any:
        COUNT[0] += 1
        return x * COUNT[0] if x > 0 else x
    step = tg.value_and_grad(counting)
    with pytest.warns(tg.RetraceWarning):
        for _ in range(4):
            step(2.0)
    [path] = step.explain().paths  # type: ignore[attr-defined]
    assert path.startswith("(x: float) is always traced: ") and why(step)[-1] in path


def test_the_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    step = tg.compile(lambda x: x * 2)
    step(1.0)
    monkeypatch.setenv("TAPEGRAD_LOG", "retrace")
    step(X)
    step(1.0)
    assert capsys.readouterr().err == ("tapegrad: <lambda> traced call 2: the type or shape of x: was float, now float64[3]\n"
                                       f"tapegrad: <lambda> traced call 3: {SECOND}\n")


def test_a_kind_of_lines_that_there_is_not_is_named() -> None:
    run = subprocess.run([sys.executable, "-c", "import tapegrad; tapegrad.compile(abs)(1.0)"], capture_output=True, text=True,
                         check=True, env={**os.environ, "TAPEGRAD_LOG": "compile, guard"})
    assert run.stderr == "tapegrad: TAPEGRAD_LOG asks for 'guard', but the known kinds are retrace, compile, guards\n"


def stepped(x: Any) -> Any:
    y = x * SCALE
    if y.sum() > 0:
        y = y * 2
    return y.sum() if len(y) < int(y[0] > 3) + 9 else np.prod(y)


def test_the_log_of_what_is_compiled_and_of_the_guards_that_fail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    step = tg.compile(stepped, warmup=1)
    monkeypatch.setenv("TAPEGRAD_LOG", "compile,guards")
    for x in (X, X, -X, 5 * X, np.ones(4)):
        step(x)
    monkeypatch.setattr(f"{__name__}.SCALE", 7.0)
    step(X)
    compiled, *failed = [re.sub(r"%\d+|at \S+:\d+ in", "_", line) for line in capsys.readouterr().err.splitlines()]
    assert re.fullmatch(r"tapegrad: stepped call 2: compiled \d+ operations to (machine code|NumPy's code) in \S+ s", compiled)
    assert failed == [
        "tapegrad: stepped call 3: a guard failed: bool(_) _ stepped: was True, now False",
        "tapegrad: stepped call 4: a guard failed: int(_) _ stepped: was 0, now 1",
        "tapegrad: stepped call 5: a guard failed: the type or shape of x: was float64[3], now float64[4]",
        f"tapegrad: stepped call 6: a guard failed: SCALE of {__name__}: was 1.0, now 7.0"]


@pytest.mark.parametrize(("calls", "call", "what", "cure"), [
    (12, lambda step, k, patch: (patch.setattr(f"{__name__}.SCALE", float(k)), step(X)), r"SCALE of .* was 9\.0, now 10\.0", "pass it as an argument"),
    (32, lambda step, k, patch: step(np.ones(k)), r"the type or shape of x: was float64\[29\], now float64\[30\]", "few kinds and shapes"),
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


DERIVATIVES = {"jacobian": tg.jacobian, "hessian": tg.hessian, "jacfwd": tg.jacfwd, "laplacian": tg.laplacian, "divergence": lambda f: tg.divergence(lambda x: x * f(x)),
               "value_and_jacobian": tg.value_and_jacobian, "sparse_hessian": tg.sparse_hessian, "hvp": lambda f: tg.hvp(f), "gauss_newton_product": tg.gauss_newton_product}


@pytest.mark.parametrize("name", list(DERIVATIVES))
def test_derivatives_say_it_too(name: str) -> None:
    step = DERIVATIVES[name](lambda x: (x * x * x).sum())
    args = (X, X) if name in ("hvp", "gauss_newton_product") else (X,)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # where they are errors, calls that may overflow are traced
        for _ in range(40):
            step(*args)
    told = step.explain()
    assert step.stats.calls == 40 == told.calls and told.hits and len(step.tapes) == 1
    assert sum(told.counts.values()) == told.traces and "runs compiled" in str(told)
    assert ("(x: float64[3])" in str(told) or len(args) == 2) and "asked" not in str(told)
    assert str(told).startswith(f"{told.name}: 40 calls, ") and all(len(line) <= 60 for line in told.format(60).splitlines())
    assert "".join(told.format(60).split()) == "".join(str(told).split())


def test_many_kinds_of_arguments_stay_on_one_screen() -> None:
    step = tg.value_and_grad(lambda x, **more: (x * x).sum() + sum(more.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(1, 60):
            step(np.ones(n), **{f"number_{k}": 1.0 for k in range(9)})
    told = step.explain()
    assert len(told.paths) == 59 and len(list(told.texts())) < 30 and "and 47 more kinds" in str(told)
    assert "(x: float64[59], number_0: float, number_1: float, number_2: float, ...) is" in str(told)


def test_derivatives_say_why_they_are_never_compiled() -> None:
    noisy = tg.jacobian(lambda x: x * np.random.default_rng().normal(size=3))
    for _ in range(5):
        noisy(X)
    assert noisy.stats.calls == noisy.stats.traces == 5 and "the function draws random numbers" in str(noisy.explain())
    named = tg.jacobian(lambda x, k: x * k)
    for _ in range(5):
        named(X, k=2.0)
    assert why(named) == ["keyword arguments"] * 5


@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad, tg.jacobian])
def test_a_profile_of_a_compiled_function_times_that(make: Any) -> None:
    step = make(lambda x: np.sum(np.sin(x) * x))
    found = step.profile(X, repeats=1)
    assert found.how in ("machine code", "NumPy's code") and found.operations == len(step.tapes[0]) and not found.why
    assert found.traced > found.call > 0 and found.program > 0
    assert str(found).startswith("<lambda>: ") and "times as long" in str(found)


def test_a_tape_that_does_not_answer_says_why() -> None:
    step = tg.jacobian(lambda x: x ** 3)  # which may warn of an overflow: pytest makes that an error
    for _ in range(8):
        step(X)
    assert why(step)[5:] == ["a guard of its tape failed: that NumPy's warnings are errors"] * 3


TICKS = itertools.count(1.5)


def test_a_profile_says_where_every_call_is_traced() -> None:
    step = tg.compile(lambda x: x * next(TICKS))
    found = step.profile(1.0, repeats=1)
    assert found.how == "a trace" and "every call is traced: " in str(found)
    with pytest.raises(tg.ArgumentError, match="repeats"):
        step.profile(1.0, repeats=0)


@pytest.mark.skipif(not there_is(), reason="no machine code here")
def test_calls_that_leave_machine_code_are_told() -> None:
    @tg.value_and_grad
    def loss(x: Any) -> Any:
        return np.sum(np.exp(x) / x)
    with np.errstate(all="ignore"):
        for k in range(8):
            loss(np.array([1.0, 2.0, float(k % 3 > 0)]))
    assert "runs compiled; 2 calls left machine code" in str(loss.explain())
