"""Forward tapes of tapes with loops: one loop over pairs, of values and tangents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.ops.loop import is_loop
from tapegrad.tree.flatten import leaves_of
from tests.harness.run import exported
from tests.optimise.loop_programs import arguments, made
from tests.optimise.test_looped_tapes import nested, network


def orbit(x: Any, v: Any) -> Any:
    for _ in range(100):
        v = v - 0.01 * math.sin(x)
        x = x + 0.01 * v
    return x


def filling(x: Any) -> Any:
    out = np.zeros(40)
    for i in range(39):
        out[i + 1] = out[i] * x + 1.0
    return out.sum()


def both(x: Any, y: Any) -> Any:
    """One of what is carried depends on y alone."""
    kept: Any = 1.0
    for i in range(20):
        x = np.sin(x) + 0.1 * i
        kept = kept * 0.5 + np.cos(y)
    return x * kept


X, W = np.array([0.1, 0.2, 0.3]), np.arange(9.0).reshape(3, 3) / 10
ROWS: list[Any] = [pytest.param(*row, id=row[0].__name__) for row in (
    (orbit, (1.0, 0.0), (0.5, 0.25)), (network, (X, W), (X * 2, W.T.copy())), (filling, (0.5,), (0.75,)), (both, (0.5, 0.25), (0.3, 1.5)),
    (network, (X.astype(np.float32), W.astype(np.float32)), (X.astype(np.float32), W.astype(np.float32))),
    (orbit, (np.float64(1.0), 0.0), (np.float64(0.5), 0.25)))]


def rolled(f: Callable[..., Any], *args: Any) -> tg.Tape:
    tape = tg.roll(tg.trace(f, *args)[1], saved=0)
    assert any(map(is_loop, tape))
    return tape


def loops(tape: tg.Tape) -> list[Any]:
    return list(filter(is_loop, tape))


def along(args: Any, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [type(x)(rng.normal()) if not np.ndim(x) else rng.normal(size=x.shape).astype(x.dtype) for x in args]


def agree(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    for x, y in zip(leaves_of(found), leaves_of(expected), strict=True):
        assert getattr(x, "dtype", type(x)) == getattr(y, "dtype", type(y))
        np.testing.assert_allclose(x, y, rtol, 1e-13 if rtol < 1e-10 else 1e-6)


@pytest.mark.parametrize(("f", "args", "other"), ROWS)
def test_a_loop_carries_its_tangents(f: Callable[..., Any], args: Any, other: Any) -> None:
    tape, long = tg.forwardtape(rolled(f, *args)).check(), tg.forwardtape(tg.trace(f, *args)[1])
    narrow = any(getattr(x, "dtype", None) == np.float32 for x in args)
    rtol = 1e-5 if narrow else 1e-12
    assert len(loops(tape)) == 1
    for given in (args, other):
        ts = along(given)
        expected = tg.jvp(f, given, ts)
        agree(tape.play(*given, *ts), expected, rtol)
        agree(long.play(*given, *ts), expected, rtol)
        for run in (tg.compile(tape), tg.optimise(tape).play, tg.unroll(tape).play):
            agree(run(*given, *ts), expected, rtol)
        agree(exported(tape)(*given, *ts), expected, rtol)


@pytest.mark.parametrize(("f", "args", "other"), ROWS[:4])
def test_second_order(f: Callable[..., Any], args: Any, other: Any) -> None:
    """Forward over reverse keeps both loops; reverse over forward and forward over forward agree with the long tape."""
    tape, ts, more = rolled(f, *args), along(other), along((*other, *other), 1)
    over = tg.forwardtape(tg.flatgrad(tape)).check()
    assert len(loops(over)) == 2
    expected = tg.forwardtape(tg.flatgrad(tg.unroll(tape))).play(*other, *ts)
    agree(over.play(*other, *ts), expected, 1e-10)
    agree(tg.compile(over)(*other, *ts), expected, 1e-10)
    forward, long = tg.forwardtape(tape), tg.forwardtape(tg.unroll(tape))
    twice = tg.forwardtape(forward)
    assert len(loops(twice)) == 1
    agree(twice.play(*other, *ts, *more), tg.forwardtape(long).play(*other, *ts, *more), 1e-10)
    back = tg.flatgrad(forward, seed=(0.0, 1.0))
    assert len(loops(back)) == 2
    agree(back.play(*other, *ts), tg.flatgrad(long, seed=(0.0, 1.0)).play(*other, *ts), 1e-10)


def test_what_has_no_tangent_carries_none() -> None:
    def f(x: Any, counts: Any) -> Any:
        total, n = x * 0.0, counts.sum()
        for i in range(20):
            n = n * 0.5 + i
            total = total + x * n
        return total
    tape = tg.forwardtape(rolled(f, 2.0, np.ones(3, bool)))
    loop, = loops(tape)
    assert loop.fn.sizes[3] == 3  # the number, the total, and the tangent of that
    agree(tape.play(3.0, np.ones(3, bool), 1.0, None), tg.jvp(f, (3.0, np.ones(3, bool)), (1.0, None)))


def test_tangents_that_no_result_needs_are_not_carried() -> None:
    def f(x: Any, y: Any) -> Any:
        for _ in range(20):
            x, y = np.sin(x), np.cos(y) * x
        return x
    loop, = loops(tg.forwardtape(rolled(f, 0.5, 0.25)))
    assert loop.fn.sizes[3] == 3


def test_loops_in_loops() -> None:
    tape = tg.forwardtape(nested()).check()
    assert len(loops(tape)) == 1 and len(loops(loops(tape)[0].fn.body)) == 1
    assert tape.play(1.0, 2.0) == tg.forwardtape(tg.unroll(nested())).play(1.0, 2.0) == (105.0, 54.0)


def test_a_tangent_is_noted_in_the_body() -> None:
    text = str(tg.forwardtape(rolled(orbit, 1.0, 0.0)))
    assert "100 x loop(%2, %3, %4, %5)" in text and "| %4 = carried, first %4" in text.replace("|  %", "| %")
    assert "# tangent of %2" in text and "hand on %15, %11, %16, %12" in text


def test_torch() -> None:
    args, ts = (X, W), along((X, W))
    tape = tg.forwardtape(rolled(network, *args))
    tensors = [torch.tensor(x) for x in (*args, *ts)]
    expected = tg.jvp(network, args, ts)
    for run in (tape.play, tg.compile(tape, backend="torch")):
        found = run(*tensors)
        agree([float(x) for x in found], [float(x) for x in expected])

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = torch.sin(x) * 1.5
        return x.sum()
    x, t = torch.tensor([0.5, 1.0], dtype=torch.float32), torch.tensor([1.0, -1.0])
    tape = tg.forwardtape(rolled(f, x))
    assert len(loops(tape)) == 1
    value, tangent = torch.func.jvp(f, (x,), (t,))
    found = tape.play(x, t)
    torch.testing.assert_close(found, (value, tangent))


def test_a_rule_that_looks_at_values_unrolls() -> None:
    def f(x: Any) -> Any:
        for _ in range(12):
            x = np.linalg.svd(x)[1][0] * x * 0.1 + np.eye(2)
        return x.sum()
    x = np.array([[1.0, 2.0], [0.5, 0.25]])
    tape = tg.forwardtape(rolled(f, x))
    agree(tape.play(x, x), tg.jvp(f, (x,), (x,)), 1e-9)


@pytest.mark.parametrize("seed", range(24))
def test_programs_made_at_random(seed: int) -> None:
    f, given = made(seed), arguments(seed)[:2]
    try:
        with np.errstate(all="ignore"):
            long = tg.trace(f, *given[0])[1]
    except Exception:
        return  # the program is refused
    tape = tg.roll(long, saved=0)
    forward, plain = tg.forwardtape(tape).check(), tg.forwardtape(long)
    assert len(loops(forward)) == len(loops(tape))
    for args in given:
        ts = along(args)
        try:
            with np.errstate(all="ignore"):
                expected = plain.play(*args, *ts)
        except tg.TapeError as err:
            with pytest.raises(type(err)):
                forward.play(*args, *ts)
            continue
        agree(forward.play(*args, *ts), expected, 1e-4 if any(getattr(x, "dtype", None) == np.float32 for x in args) else 1e-8)
