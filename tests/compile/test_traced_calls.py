"""Calls that trace: they return what `grad` does, keep no arrays, draw once and write nothing of the caller's; what the first compiled call makes of their tape."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench.problems import PROBLEMS
from tapegrad.compile import attempt, backend, cache, compiling
from tapegrad.tape.tape import Call
from tapegrad.tree.flatten import leaves_of
from tests.harness.compare import same
from tests.test_promises import kept
from tests.threads import at_once
from tests.transforms.test_dropping import SMALL

STAGES: dict[str, Any] = {"flatgrad": compiling, "compile_tape": backend}
NUMPYS = [name for name, problem in PROBLEMS.items() if not problem.module]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the flat tapes and the compiled functions that are made."""
    counts = {"flatgrad": 0, "compile_tape": 0}

    def counted(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return fn(*args, **kwargs)
        return call
    for name, module in STAGES.items():
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return counts


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WARMUP", None)
    monkeypatch.setattr(attempt, "AT_ONCE", math.inf)


def exactly(found: Any, expected: Any) -> None:
    for a, b in zip(leaves_of(found), leaves_of(expected), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)


def f(x: Any) -> Any:
    y = np.exp(x)
    return (y * y).sum() if x[0] > 0 else y.sum()


X = np.linspace(0.1, 1.0, 40)


@pytest.mark.parametrize("name", NUMPYS)
@pytest.mark.usefixtures("patient")
def test_a_first_call_is_grads(name: str, made: dict[str, int]) -> None:
    problem = PROBLEMS[name].made(**SMALL.get(name, {}))
    step, expected = tg.value_and_grad(problem.objective, argnums=None, mode="numpy"), tg.grad(problem.objective, *problem.args, **problem.given)
    exactly(step(*problem.args, **problem.given), expected)
    assert not step.tapes
    exactly(step(*problem.args, **problem.given), expected)
    assert made["compile_tape"] == 0 < made["flatgrad"] <= 2  # one of the loops, another where a loop has no gradient
    tape, = step.tapes
    assert holds_no_arrays(tape)
    made.update(flatgrad=0)
    for _ in range(2):
        same(step(*problem.args, **problem.given), expected)
    assert made == {"flatgrad": 0, "compile_tape": 1} and repr(step.stats) == "Stats(traces=2, hits=2, misses=0)"
    assert step.tapes[0].result.spec.type is tuple


def holds_no_arrays(tape: tg.Tape) -> bool:
    """Return whether the calls of a kept tape have no arrays, but those that are made for writing, and views of them."""
    return not any(isinstance(op.val, np.ndarray) and op.val.nbytes >= backend.KEPT and op.val.base is None for op in tape
                   if type(op) is Call and not (op.fn.memory.blank or op.fn.memory.written))


def text(tape: tg.Tape) -> str:
    return "\n".join(f"{op!r} {op.type} {op.note}" for op in tape)


def test_other_points_and_paths() -> None:
    step = tg.value_and_grad(f, argnums=None)
    for x in (X, 2 * X, -X, -2 * X, 3 * X, -3 * X):
        same(step(x), tg.grad(f, x))
    assert step.stats.traces == 2 and step.stats.hits == 4


@pytest.mark.usefixtures("patient")
def test_nothing_is_compiled_for_what_does_not_fit(made: dict[str, int]) -> None:
    def g(p: Any, mode: str = "a", k: Any = 1.0) -> Any:
        y = p["x"] * (2.0 if mode == "a" else 3.0) * k * FACTOR["now"]
        return np.sum(y) if np.sum(y) > 0 else np.sum(y * y)
    step: Any = tg.value_and_grad(g, argnums=None, mode="numpy")
    calls: list[tuple[Any, ...]] = [({"x": X},), ({"x": X[1:]},), ({"x": X.astype(np.float32)},), ({"x": 1.0},), ({"x": 1},), ({"x": -X},),
                                    ({"x": X}, "a"), ({"x": X}, "b"), ({"x": X}, "a", 2), ({"x": X}, "a", 2.0), ({"x": X, "y": 1.0},)]
    for args in [*calls, calls[0], *calls]:  # after new ways alone, one that is known says that calls may be observed
        exactly(step(*args), tg.grad(g, *args))
    FACTOR["now"] = 2.0
    try:
        exactly(step(*calls[0]), tg.grad(g, *calls[0]))
    finally:
        FACTOR["now"] = 1.0
    # but for the one that another branch than it is known for makes no other
    assert made == {"flatgrad": len(calls), "compile_tape": 1} and step.stats.traces == 2 * len(calls) + 2 and step.stats.hits == 0
    assert "bool(%" in repr(step.stats.guards)
    for args in calls:
        same(step(*args), tg.grad(g, *args))
    assert made == {"flatgrad": len(calls), "compile_tape": len(calls)} and step.stats.hits == len(calls)


FACTOR = {"now": 1.0}


SHARED = np.random.default_rng(11)


def by_argument(x: Any, rng: Any) -> Any:
    return (x * rng.normal(size=3)).sum() * rng.uniform()


def by_global(x: Any, rng: Any) -> Any:
    return (x * SHARED.normal(size=3)).sum() + rng.permutation(3)[0] * x[0]


def by_module(x: Any, rng: Any) -> Any:
    return (x * np.random.rand(3)).sum() * np.random.normal() + rng.random() * x[1]


def by_seed(x: Any, rng: Any) -> Any:
    inner = np.random.default_rng(5)
    return (x * inner.normal(size=3)).sum() * inner.uniform() * rng.random()


def by_branch(x: Any, rng: Any) -> Any:
    return x.sum() if rng.random() > 0.5 else (x * x).sum()


@pytest.mark.parametrize("g", [by_argument, by_global, by_module, by_seed])
@pytest.mark.parametrize("compiled", [False, True])
def test_each_call_draws_once(g: Callable[..., Any], compiled: bool) -> None:
    def run(fn: Callable[..., Any]) -> tuple[list[Any], Any]:
        np.random.seed(1)
        SHARED.bit_generator.state = np.random.default_rng(11).bit_generator.state
        rng = np.random.default_rng(3)
        found = [fn(np.arange(3.0) + k, rng) for k in range(5)]
        return found, (rng.random(), SHARED.random(), np.random.rand())
    step: Any = tg.compile(g) if compiled else tg.value_and_grad(g, argnums=None)
    (found, after), (expected, then) = run(step), run(g if compiled else lambda *args: tg.grad(g, *args))
    same(found, expected)
    assert after == then and step.stats.traces == 2 and step.stats.hits == 3  # the second call compares, and draws but once


def test_what_is_drawn_decides_whether_a_tape_fits() -> None:
    step, x = tg.value_and_grad(by_branch, argnums=None), np.array([1.0, 2.0])
    for _ in range(2):
        step(x, np.random.default_rng(0))  # draws 0.63
    rng = np.random.default_rng(1)  # draws 0.51
    same(step(x, rng), (3.0, (None, np.ones(2), None)))
    assert rng.random() == np.random.default_rng(1).random(2)[1] and step.stats.hits == 1

    step, rng = tg.value_and_grad(lambda x, rng: by_branch(x, rng), argnums=None), np.random.default_rng(2)  # draws 0.26
    for _ in range(2):
        step(x, np.random.default_rng(0))
    same(step(x, rng), (5.0, (None, 2 * x, None)))
    assert rng.random() == np.random.default_rng(2).random(2)[1] and step.stats.hits == 0 and step.stats.misses == 1


def test_what_is_written_is_the_tapes_own() -> None:
    def g(x: Any, y: Any) -> Any:
        x[1:] *= 2.0
        view = y.reshape(-1)
        view += x
        z = np.zeros(4)
        for k in range(4):
            z[k] = view[k] * x[-1]
            x[0] = z[k]
        return (z * x).sum() + np.sort(y.ravel())[0]
    for fast, plain in ((tg.value_and_grad(g, argnums=None), lambda *args: tg.grad(g, *args)), (tg.compile(g), lambda *args: g(*map(kept, args)))):
        for k in range(4):
            x, y = np.arange(4.0) + k, np.arange(4.0).reshape(2, 2) - k
            before = x.copy(), y.copy()
            same(fast(x, y), plain(x, y))
            exactly((x, y), before)
        assert fast.stats.traces == 1  # type: ignore[attr-defined]


def test_a_loop_that_fills_an_array() -> None:
    def g(x: Any) -> Any:
        out = np.zeros(300)
        for k in range(300):
            out[k] = x[k % 3] * k
        return (out * out).sum()
    step = tg.value_and_grad(g, argnums=None)
    for k in range(3):
        same(step(np.arange(3.0) + k), tg.grad(g, np.arange(3.0) + k))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_while_compiling_leaves_the_entry_as_it_was(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    step: Any = tg.value_and_grad(f, argnums=None, mode="numpy")
    step(X)
    step(X)
    entry, = step._entries[1]
    then, fn, failing = text(entry.tape), backend.compile_tape, [True]

    def fail(*args: Any, **kwargs: Any) -> Any:
        found = fn(*args, **kwargs)
        if failing.pop():
            raise error("in the midst of it")
        failing.append(False)
        return found
    monkeypatch.setattr(backend, "compile_tape", fail)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            step(2 * X)
    else:
        exactly(step(2 * X), tg.grad(f, 2 * X))  # traced
    assert text(entry.tape) == then and step.stats.hits == 0 and entry in step._entries[1]
    assert holds_no_arrays(entry.tape)
    failing[:] = [False]
    same(entry.run(3 * X), tg.grad(f, 3 * X))
    same(step(3 * X), tg.grad(f, 3 * X))


@pytest.mark.usefixtures("patient")
def test_a_users_function_runs_once_a_call() -> None:
    calls = []

    @tg.primitive
    def measured(x: Any) -> Any:
        calls.append(1)
        return np.sum(x)
    step: Any = tg.value_and_grad(lambda x: np.sum(x * tg.stop_gradient(measured(x))), argnums=None)
    for fast in (step, tg.compile(lambda x: measured(x) * 2.0)):
        for k in range(4):
            calls.clear()
            fast(X + k)
            assert len(calls) == 1
        assert fast.stats.hits == 2


@pytest.mark.usefixtures("patient")
def test_compile_keeps_no_values_either() -> None:
    fast: Any = tg.compile(f)
    for _ in range(2):
        exactly(fast(X), f(X))
    tape, = fast.tapes
    assert holds_no_arrays(tape) and "float64[40]" in str(tape)
    same(tape.check().play(2 * X), f(2 * X))
    for x in (2 * X, -X, -X, -2 * X):
        same(fast(x), f(x))
    assert repr(fast.stats) == "Stats(traces=4, hits=2, misses=2)"


def test_errors_and_warnings_are_those_of_the_call() -> None:
    def root(x: Any) -> Any:
        return np.sum(np.sqrt(x))
    step: Any = tg.value_and_grad(root, argnums=None)
    step(X)
    with np.errstate(all="raise"), pytest.raises((FloatingPointError, tg.TapeError)):
        step(-X)
    with np.errstate(all="ignore"):
        same(step(0 * X), tg.grad(root, 0 * X))
    assert step.stats.hits == 1


@pytest.mark.parametrize("turn", range(10))
def test_threads_that_fit_and_threads_that_do_not(turn: int) -> None:
    step: Any = tg.value_and_grad(f, argnums=None)
    points = [X, -X, 2 * X, X[:7], -2 * X, 3 * X]
    expected = [tg.grad(f, x) for x in points]
    step(points[turn % 4])
    start, failed = threading.Barrier(len(points)), list[Any]()

    def work(k: int) -> None:
        start.wait()
        try:
            same(step(points[k]), expected[k])
        except BaseException as err:
            failed.append(err)
    at_once(work, range(len(points)))
    assert not failed and step.stats.hits + step.stats.traces == len(points) + 1
