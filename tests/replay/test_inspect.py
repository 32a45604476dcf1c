"""inspect: the interpreter's public face. Two meanings of a tape as examples, an interval and a count of flops, and what a replay is."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.show.graph.cost import cost_of

Interpreter = tg.inspect.Interpreter


class Interval(NamedTuple):
    """All numbers from `low` to `high`."""

    low: float
    high: float


class Intervals(Interpreter):
    """What values a program of numbers can have where its arguments lie in intervals (Moore 1966, Interval Analysis)."""

    rising = frozenset(["exp", "log", "sqrt", "tanh", "arctan", "cbrt"])

    def constant(self, op: Any) -> Interval:
        return Interval(float(op.val), float(op.val))

    def guard(self, op: Any, value: Any) -> None:
        if op.fact == "bool":
            assert value.low == value.high, f"{op.args[0].name} steers the program"

    def call(self, op: Any, fn: Any, args: list[Any]) -> Interval:
        xs = [x if isinstance(x, Interval) else Interval(x, x) for x in args]
        name, low, high = fn.__name__, xs[0].low, xs[0].high
        if name == "greater":
            return Interval(float(low > xs[1].high), float(high > xs[1].low))
        if name in self.rising:
            return Interval(float(fn(low)), float(fn(high)))
        if name == "negative":
            return Interval(-high, -low)
        if name == "pow" and xs[1].low == 2.0:
            return Interval(0.0 if low < 0 < high else min(low * low, high * high), max(low * low, high * high))
        if name == "add":
            return Interval(low + xs[1].low, high + xs[1].high)
        if name == "subtract":
            return Interval(low - xs[1].high, high - xs[1].low)
        if name in ("multiply", "divide"):
            assert name == "multiply" or not xs[1].low <= 0 <= xs[1].high, "division by zero"
            ends = [fn(a, b) for a in xs[0] for b in xs[1]]
            return Interval(min(ends), max(ends))
        raise NotImplementedError(name)


class Flops(Interpreter):
    """How many operations of numbers a tape takes, for arguments of any shape: what values mean is their shape, and the rest follows."""

    def __init__(self) -> None:
        self.count = 0

    def input(self, op: Any, value: Any) -> Any:
        return np.broadcast_to(0.0, np.shape(value))  # takes no memory, however long

    def guard(self, op: Any, value: Any) -> None:
        """Any way is as long as another."""

    def call(self, op: Any, fn: Any, args: list[Any]) -> Any:
        with np.errstate(all="ignore"):
            y = fn.run(*args, **op.kwargs)
        each = 2 * np.shape(args[0])[-1] if fn.__name__ in ("matmul", "dot", "vecdot") else 1
        self.count += np.size(args[0]) if fn.__name__ in ("sum", "mean", "max") else each * np.size(y)
        return np.broadcast_to(0.0, np.shape(y))


def rational(a: Any, b: Any) -> Any:
    return a / (a + b * b)


def orbit(x: Any, v: Any) -> Any:
    for _ in range(50):
        v = v - 0.01 * x
        x = x + 0.01 * v
    return {"x": x, "v": (v, 2.0)}


@pytest.mark.quick
def test_intervals() -> None:
    tape = tg.trace(rational, 2.0, 3.0)[1]
    found = Intervals().interpret(tape, [Interval(1.0, 2.0), Interval(3.0, 4.0)])
    assert found.low == pytest.approx(1 / 18) and found.high == pytest.approx(2 / 10)
    slope = Intervals().interpret(tg.flatgrad(tg.trace(lambda x: math.exp(x) - x ** 2, 1.0)[1]), [Interval(0.0, 0.5)])[1][1]
    assert slope.low <= min(math.exp(x) - 2 * x for x in np.linspace(0, 0.5, 9)) and slope.high == pytest.approx(math.exp(0.5))
    with pytest.raises(tg.ReplayError, match="division by zero"):
        Intervals().interpret(tape, [Interval(-20.0, 2.0), Interval(3.0, 4.0)])
    with pytest.raises(tg.ReplayError, match="steers the program"):
        Intervals().interpret(tg.trace(lambda x: x if x > 0 else -x, 2.0)[1], [Interval(-1.0, 1.0)])


def test_flops() -> None:
    w, x = np.ones((3, 4)), np.ones((4, 5))
    tape = tg.trace(lambda w, x: np.sum(np.tanh(w @ x)), w, x)[1]
    flops = Flops()
    flops(tape)
    assert flops.count == 3 * 5 * 2 * 4 + 15 + 15 == sum(cost_of(op).flops or 0 for op in tape)
    of_gradient = Flops()
    of_gradient(tg.flatgrad(tape))
    assert of_gradient.count > 2 * flops.count
    rolled, plain = Flops(), Flops()
    long = tg.trace(orbit, 1.0, 0.0)[1]
    rolled(tg.roll(long, saved=0))
    plain(long)
    assert rolled.count == plain.count == 200


@pytest.mark.parametrize(("f", "args"), [
    (rational, (2.0, 3.0)), (orbit, (1.0, 0.0)), (lambda x: np.linalg.svd(x)[1].sum() + x[0, 0], (np.arange(6.0).reshape(2, 3) ** 2,)),
    (lambda p: p["a"] * p["b"].sum(), ({"a": 2.0, "b": np.ones(3)},)),
    (lambda x: x if x > 0 else -x, (3.0,))])
def test_as_it_is_it_replays(f: Any, args: tuple[Any, ...]) -> None:
    tape = tg.trace(f, *args)[1]
    rolled = tg.roll(tape, saved=0)
    for each in (tape, rolled):
        np.testing.assert_equal(Interpreter()(each, *args), each.play(*args))
        np.testing.assert_equal(Interpreter()(each), each.play(*args))
    if f is not orbit:
        for each in (tg.gradtape(f, *args), tg.flatgrad(rolled)):
            np.testing.assert_equal(Interpreter()(each, *args), each.play(*args))


def test_tensors() -> None:
    t = torch.arange(3.0)
    for tape in (tg.trace(lambda t: torch.sin(t) ** 2, t)[1], tg.trace(lambda x: np.sin(x) ** 2, np.arange(3.0))[1]):
        torch.testing.assert_close(torch.as_tensor(Interpreter()(tape, t)), tape.play(t), check_dtype=False)


def test_what_it_asks() -> None:
    class Log(Interpreter):
        def __init__(self) -> None:
            self.lines: list[str] = []

        def input(self, op: Any, value: Any) -> Any:
            self.lines.append(f"input {op.label}")
            return value

        def constant(self, op: Any) -> Any:
            self.lines.append("constant")
            return super().constant(op)

        def call(self, op: Any, fn: Any, args: list[Any]) -> Any:
            self.lines.append(fn.__name__)
            return super().call(op, fn, args)

        def guard(self, op: Any, value: Any) -> None:
            self.lines.append(f"guard {op.fact}")
            super().guard(op, value)

        def subtape(self, op: Any, fn: Any, args: list[Any]) -> Any:
            self.lines.append(f"subtape of {len(fn.body)}")
            return super().subtape(op, fn, args)
    log = Log()
    tape = tg.trace(lambda x: np.sum(x * np.arange(3.0)) if x[0] > 0 else x, np.ones(3))[1]
    assert log(tape, np.full(3, 2.0)) == 6.0
    assert log.lines == ["input x", "getitem", "greater", "guard bool", "constant", "multiply", "sum"]
    with pytest.raises(tg.GuardError):
        log(tape, -np.ones(3))
    log = Log()
    log(tg.roll(tg.trace(orbit, 1.0, 0.0)[1], saved=0))
    assert log.lines.count("multiply") == 100 and "subtape of 8" in log.lines
    draws = tg.trace(lambda x: x + np.random.default_rng().normal(), 1.0)
    assert Interpreter()(draws[1]) == draws[0]
    with pytest.raises(tg.ArgumentError, match="2 inputs, and got 1 value"):
        Interpreter().interpret(tg.trace(rational, 2.0, 3.0)[1], [1.0])
