"""split: long functions in parts compute what they do in one piece."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile import source_split as split
from tapegrad.compile.numpy.function import Miss
from tests.harness.compare import same
from tests.threads import at_once


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every body is long, and a part has three lines."""
    monkeypatch.setattr(split, "LONG", 0)
    monkeypatch.setattr(split, "PART", 3)


def chain(x: Any, y: Any) -> Any:
    total = 0.0
    for k in range(6):
        x = np.tanh(x * y[k % 3]) + x[::-1]
        total = total + np.sum(x) * y[k % 3]
    return total


@pytest.mark.usefixtures("short")
def test_what_one_part_makes_others_use() -> None:
    x, y = np.linspace(0.1, 1.0, 7), np.array([0.3, 0.5, 0.7])
    run = tg.compile(tg.flatgrad(tg.trace(chain, x, y)[1]))
    assert run.source.count("def _part") > 10
    same(run(x, y), tg.grad(chain, x, y))
    same(run(2 * x, -y), tg.grad(chain, 2 * x, -y))
    same(run(x, y), tg.grad(chain, x, y))


@pytest.mark.usefixtures("short")
def test_numbers_as_numpy_computes_them() -> None:
    def f(a: Any, b: Any) -> Any:
        for _ in range(4):
            a = a / b + a * b
        return a
    one, zero = np.float64(1.0), np.float64(0.0)
    fast = tg.compile(f)
    for b in (one * 2, one * 3, zero):  # Python's numbers raise for the last
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(fast(one, b), f(one, b))
    assert fast.stats.hits == 2


@pytest.mark.usefixtures("short")
def test_a_guard_in_a_part() -> None:
    def f(a: Any) -> Any:
        b = a * 2.0 + np.sin(a)
        c = b * b - np.cos(b)
        return c * 2.0 if c > 1.0 else c / 3.0
    tape = tg.trace(f, 2.0)[1]
    run = tg.compile(tape)
    assert run(3.0) == f(3.0)
    with pytest.raises(Miss, match="this tape was recorded where bool"):
        run(0.01)


@pytest.mark.usefixtures("short")
def test_several_threads() -> None:
    x, y = np.linspace(0.1, 1.0, 7), np.array([0.3, 0.5, 0.7])
    step = tg.value_and_grad(chain, argnums=None)
    step(x, y)
    step(x, y)
    expected = {k: tg.grad(chain, x * k, y)[0] for k in range(1, 5)}
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(30) if abs(step(x * k, y)[0] - expected[k]) > 1e-12)
    at_once(work, expected)
    assert not wrong


@pytest.mark.usefixtures("short")
def test_a_traceback_shows_the_line_of_a_part() -> None:
    def fails(x: Any) -> Any:
        if np.max(x) > 5:
            raise KeyError("too large")
        return x * 1.0
    op = tg.primitive(fails)
    tape = tg.trace(lambda x: np.sum(op(np.sin(x) * 3 + x) * x), np.ones(3))[1]
    run = tg.compile(tape)
    with pytest.raises(KeyError) as raised:
        run(np.full(3, 10.0))
    shown = "".join(traceback.format_tb(raised.value.__traceback__)[1:])
    assert ("tg.trace(lambda x" if sys.version_info >= (3, 11) else "fails(") in shown


def test_a_long_function_is_written_in_parts() -> None:
    pattern = np.random.default_rng(0).random(3000) < 0.5

    def f(x: Any) -> Any:
        r = x
        for grows in pattern:  # of no period, which would be a loop
            r = r * x if grows else r - np.sin(r)
        return r
    run = tg.compile(tg.flatgrad(tg.trace(f, 0.5)[1]))
    parts = run.source.split("def ")[1:]
    assert len(parts) > 4 and max(part.count("\n") for part in parts) < 2 * split.PART
    assert max(len(part) for part in parts) < 200 * split.PART
    same(run(0.25), tg.grad(f, 0.25))
