"""Compiled code stands at the program's lines: warnings and tracebacks name them, and Python counts them as those of
the program.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.trace import test_numpy_warnings as other_file

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tables of lines have another form")
X = np.array([0.0, 1.0])


def f(x: Any) -> Any:
    y = np.log(x)
    z = 1.0 / x
    w = x / x
    return (y + z + w).sum()


def loops(x: Any) -> Any:
    for _ in range(200):
        x = np.log(x + 1.0)
    return np.sqrt(x - 10.0).sum()


def mixed(x: Any) -> Any:
    return other_file.f(x) + np.log(x).sum()


def said(run: Callable[[], Any], mode: str, times: int) -> list[tuple[str, str, int]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(mode)  # type: ignore[arg-type]
        globals().setdefault("__warningregistry__", {}).clear()
        for _ in range(times):
            run()
    return [(str(each.message), each.filename, each.lineno) for each in found]


@pytest.mark.parametrize("fn", [f, loops])
@pytest.mark.parametrize("mode", ["always", "default"])
def test_warnings_of_compiled_calls(fn: Callable[..., Any], mode: str) -> None:
    plain = said(lambda: fn(X), mode, 3)
    fast, sweeps = tg.compile(fn, warmup=1), tg.value_and_grad(fn, argnums=None, warmup=1)
    with np.errstate(all="ignore"):
        for _ in range(3):
            fast(X), sweeps(X)
    assert fast.stats.hits
    assert sweeps.stats.hits
    assert said(lambda: fast(X), mode, 3) == plain
    found = said(lambda: sweeps(X), mode, 3)
    assert [each for each in found if each in plain] == plain or mode == "always"
    assert {(file, line) for _, file, line in found} <= {
        (__file__, number) for number in range(fn.__code__.co_firstlineno, 40)
    }


def test_those_of_one_shot_and_compiled_calls_are_counted_together() -> None:
    fast = tg.compile(f, warmup=1)
    with np.errstate(all="ignore"):
        for _ in range(3):
            fast(X)
    assert said(lambda: (f(X), tg.trace(f, X), fast(X)), "default", 2) == said(lambda: f(X), "default", 1)


def test_a_program_of_several_files_stays_where_it_was() -> None:
    fast = tg.compile(mixed, warmup=1)
    with np.errstate(all="ignore"):
        for _ in range(3):
            fast(X)
    assert {file.startswith("<tapegrad mixed") for _, file, _ in said(lambda: fast(X), "always", 1)} == {True}


def test_a_traceback_of_compiled_code() -> None:
    tape = tg.trace(lambda x, i: x[i] * 2.0, X, np.array([0, 1]))[1]
    with pytest.raises(IndexError) as caught:
        tg.compile(tape)(X, np.array([0, 5]))
    assert any(
        frame.filename == __file__ and "x[i] * 2.0" in (frame.line or "")
        for frame in traceback.extract_tb(caught.value.__traceback__)[1:]
    )
