"""NumPy's warnings stand at the program's line, are counted as plain NumPy counts them, and leave the settings as
they are.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

X = np.array([0.0, 1.0])
PLAIN = np.geterr()
MODES: list[Any] = []


def f(x: Any) -> Any:
    y = np.log(x)
    z = 1.0 / x
    w = x / x
    return (y + z + w).sum()


def g(x: Any) -> Any:
    s = 0.0
    for _ in range(3):
        s = s + np.log(x).sum()
        s = s + np.sqrt(x - 1).sum()
    return s * np.exp(x * 1e4).sum()


def h(x: Any) -> Any:
    return x[0] / x[0] + np.float32(1.0) / x[0]


def said(run: Callable[[], Any], mode: str = "always", times: int = 1) -> list[tuple[str, str, int]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(mode)  # type: ignore[arg-type]
        globals().setdefault("__warningregistry__", {}).clear()
        for _ in range(times):
            run()
    return [(str(each.message).replace("scalar ", ""), each.filename, each.lineno) for each in found]


@pytest.mark.parametrize("fn", [f, g, h])
@pytest.mark.parametrize("mode", ["always", "default", "once"])
def test_warnings_stand_at_the_programs_line_and_count_as_ever(fn: Callable[..., Any], mode: str) -> None:
    plain = said(lambda: fn(X), mode, times=2)
    assert plain
    assert said(lambda: tg.trace(fn, X), mode, times=2) == plain
    with np.errstate(all="ignore"):
        tape = tg.trace(fn, X)[1]
    assert said(lambda: tape.play(X), mode, times=2) == plain


@pytest.mark.parametrize("fn", [f, g, h])
def test_those_of_the_sweep_stand_at_the_line_of_what_is_differentiated(fn: Callable[..., Any]) -> None:
    plain, found = said(lambda: fn(X)), said(lambda: tg.grad(fn, X))
    assert found[: len(plain)] == plain
    assert {(file, line) for _, file, line in found[len(plain) :]} <= {(file, line) for _, file, line in plain}


def test_a_filter_of_the_program_makes_errors_of_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in log"):
            tg.grad(f, X)
    assert np.geterr()["divide"] == "warn"
    assert np.geterrcall() is None


def test_settings_are_what_the_program_and_its_caller_say() -> None:
    def settings(x: Any) -> Any:
        first = np.geterr()
        with np.errstate(divide="ignore"):
            y = np.log(x)
        with np.errstate(all="warn"):
            z = np.log(x)
        before = np.seterr(all="ignore")
        w = np.log(x)
        np.seterr(**before)
        return (y + z + w + np.log(x)).sum(), first == before == PLAIN

    plain = said(lambda: settings(X))
    assert len(plain) == 2
    assert said(lambda: tg.trace(settings, X)) == plain
    assert (np.geterr(), np.geterrcall()) == (PLAIN, None)
    with warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.simplefilter("ignore")
        assert tg.trace(settings, X)[0][1] is True
    with np.errstate(all="ignore"):
        assert not said(lambda: tg.grad(f, X))
    heard: list[str] = []
    with np.errstate(all="call", call=lambda what, flag: heard.append(what)):
        assert not said(lambda: tg.trace(f, X))
    assert "divide by zero" in heard


def test_what_the_program_sets_stays() -> None:
    before = np.geterr()

    def sets(x: Any) -> Any:
        np.seterr(over="ignore")
        return x * 2

    try:
        tg.grad(sets, 1.0)
        assert np.geterr() == {**before, "over": "ignore"}
        assert np.geterrcall() is None
    finally:
        np.seterr(**before)  # type: ignore[arg-type]


def test_nested_traces_and_other_threads() -> None:
    def outer(x: Any) -> Any:
        return tg.gradient(lambda z: np.log(z).sum() * 1.0, x)[0].sum()

    lines = {line for _, file, line in said(lambda: tg.grad(outer, X)) if file == __file__}
    assert lines == {outer.__code__.co_firstlineno + 1}

    def ask(x: Any) -> Any:
        thread = threading.Thread(target=lambda: MODES.append(np.geterr()))
        thread.start()
        thread.join()
        return x

    tg.grad(ask, 1.0)
    assert MODES[0] == np.geterr()


def by_python(x: Any) -> Any:
    return round(x, 3) * x


def by_numpy(x: Any) -> Any:
    return np.around(x, decimals=3) * x


@pytest.mark.parametrize("fn", [by_python, by_numpy])
def test_a_gradient_that_stops_at_digits_is_told_of_once_at_the_line(fn: Callable[..., Any]) -> None:
    found = said(lambda: tg.value_and_grad(fn)(2.0), "default", times=3)
    assert [where for _, *where in found] == [[__file__, fn.__code__.co_firstlineno + 1]]
    assert "rounded to 3 digits is 0" in found[0][0]
    assert "rounded to 1 digit is 0" in said(lambda: tg.grad(lambda x: round(x, 1) * x, 2.0), "default", times=1)[0][0]
    for run in (lambda: tg.trace(fn, 2.0), lambda: tg.grad(lambda x: fn(tg.value(x)) * x, 2.0),
                lambda: tg.grad(lambda x: np.round(x) * x + round(x) + int(x), 2.0)):
        assert said(run) == []


def test_what_the_program_silences_is_not_said_by_replays_and_sweeps() -> None:
    def quiet(x: Any) -> Any:
        with np.errstate(all="ignore"):
            inside = np.nansum(np.log(x))
        return inside + np.sum(np.sqrt(x + 1.0))

    def filtered(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.nansum(np.log(x) * 2.0)
    for fn in (quiet, filtered):
        tape = tg.trace(fn, X + 1.0)[1]
        assert not said(lambda tape=tape: tape.play(X - 0.5)) and not said(lambda fn=fn: tg.grad(fn, X))  # type: ignore[misc]
    tape = tg.trace(quiet, X)[1]
    assert len(said(lambda: tape.play(X - 2.0))) == 1  # of the square root, which stands outside


@pytest.mark.parametrize("backend", ["numpy", None])
def test_nor_by_compiled_calls(backend: str | None) -> None:
    def quiet(x: Any) -> Any:
        s = 0.0
        for i in range(100):  # a loop, in which a call of Python's is
            with np.errstate(divide="ignore", invalid="ignore"):
                s = s + np.sum(np.where(x > 0, np.sort(np.log(x)) * i, 0.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return s + np.sum(np.where(x > 0, np.sin(x) / x, 1.0))
    step = tg.value_and_grad(quiet, backend=backend, warmup=1)
    assert not said(lambda: step(X), times=4)
    assert step.stats.hits
    loud = tg.value_and_grad(lambda x: quiet(x) + np.sum(np.log(x) * 0.0), backend=backend, warmup=1)
    for _ in range(3):
        found = said(lambda: loud(X))
        assert found and not {line for _, _, line in found} & set(range(quiet.__code__.co_firstlineno, quiet.__code__.co_firstlineno + 8))
