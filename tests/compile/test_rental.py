"""When a compiled function looks, observes and compiles; tapes that look constants up by integers; what is too large to be compared."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench import rental
from bench.programs import SMALL, TRAINING, Program
from tapegrad.compile import cache
from tapegrad.compile.path import Pace, RetraceWarning
from tapegrad.errors import TapeError
from tests.harness.compare import same

RNG = np.random.default_rng(0)
X, Y = RNG.random((30, 4)), RNG.random((30, 3))
TURNED = [RNG.random((2, 4)), np.asfortranarray(RNG.random((2, 4))), RNG.random((2, 4))]
ORDER, RATES, FLAT = [3, 1, 4, 0, 2], [0.1, 0.2, 0.3, 0.4, 0.5], X.ravel()
RARE = [1.0]
W = RNG.random((4, 3))


def one_array(w: Any, it: int) -> Any:
    i = it % 5
    return np.sum(np.tanh(X[i * 2:(i + 1) * 2] @ w))


def two_arrays(w: Any, it: int) -> Any:
    i = it % 5
    return np.sum((X[i * 2:(i + 1) * 2] @ w - Y[i * 2:(i + 1) * 2]) ** 2) * 0.5 ** it


def by_another_order(w: Any, it: int) -> Any:
    i = ORDER[it % 5]
    return np.sum(np.tanh(X[i] @ w)) * RATES[i]


def twice(w: Any, it: int) -> Any:
    return np.sum(X[it % 5] @ w) * np.sum(X[(it % 5) + 5] ** 2 @ w)


def numbers(w: Any, it: int) -> Any:
    return np.sum(w) * RATES[it % 5] + (2.0 if it % 2 else 3.0) * np.sum(w ** 2)


def written(w: Any, it: int) -> Any:
    x = X[it % 5] + 0.0 * w[:, 0]
    y = np.array([w[0, 0], *X[it % 5][1:]])
    y[1] = w[0, 0] ** 2
    x[1:] = y[1:] * w[1, 1]
    return np.sum(x * y)


def returned(w: Any, it: int) -> Any:
    return np.sum(w) * 0.0 + X[it % 5]


@pytest.mark.parametrize("f", [one_array, two_arrays, by_another_order, twice, numbers, written])
def test_one_tape_for_all_minibatches(f: Callable[..., Any]) -> None:
    step = tg.value_and_grad(f)
    for it in range(20):
        same(step(W, it), tg.grad(f, W, it))
    first, misses = step.stats.traces, step.stats.misses
    assert first <= (19 if f is numbers else 12) and len(step.tapes) <= 2
    for it in (*range(20), 3, 13, 1):
        same(step(W * 1.5, it), tg.grad(f, W * 1.5, it))
    assert (step.stats.traces, step.stats.misses) == (first, misses)
    W2 = W.astype(np.float32)
    same(step(W2, 1), tg.grad(f, W2, 1))


def test_what_is_looked_up_is_never_the_callers_memory() -> None:
    fast = tg.compile(returned)
    for it in range(15):
        same(fast(W, it), X[it % 5])
        fast(W, it)[:] = 7.0
    assert not np.any(X == 7.0) and fast.stats.hits > 10  # type: ignore[attr-defined]


def test_data_that_change_are_looked_at_again() -> None:
    step = tg.value_and_grad(one_array)
    for it in range(12):
        same(step(W, it), tg.grad(one_array, W, it))
    before = X[3, 1]
    try:
        X[3, 1] = 9.0
        for it in range(12):
            same(step(W, it), tg.grad(one_array, W, it))
    finally:
        X[3, 1] = before
    for it in range(5):
        same(step(W, it), tg.grad(one_array, W, it))


def test_a_way_that_reads_something_else_has_a_tape_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def rare() -> float:
        return RARE[0]

    def f(w: Any, it: int) -> Any:
        rate = rare() if int(it) == 3 else RATES[int(it)]
        return np.sum(w) * rate
    step = tg.value_and_grad(f)
    for it in (*range(5), *range(5), *range(5)):
        same(step(W, it), tg.grad(f, W, it))
    monkeypatch.setitem(globals(), "RARE", [5.0])
    for it in (3, 3, 3, 2, 3):
        same(step(W, it), tg.grad(f, W, it))
    try:
        RATES[2] = 7.0
        for it in (2, 2, 3, 2):
            same(step(W, it), tg.grad(f, W, it))
    finally:
        RATES[2] = 0.3


def test_constants_that_lie_otherwise_and_steering_by_what_is_looked_up() -> None:
    def f(w: Any, it: int) -> Any:
        return np.sum(TURNED[it % 3] @ w)

    def g(w: Any, it: int) -> Any:
        i = it % 5
        if np.sum(X[i] * w[:, 0]) > 100.0:
            return w.sum()
        j = int(np.floor(np.sum(X[i]) * 0.0 + i))
        return np.sum(X[j + 1] @ w)
    for fn in (f, g):
        step = tg.value_and_grad(fn)
        for it in range(25):
            same(step(W, it), tg.grad(fn, W, it))
        assert step.stats.hits >= 9


def test_a_counter_is_no_row_of_a_table() -> None:
    def f(w: Any, it: int) -> Any:
        CALLS[0] += 1
        return np.sum(w) * CALLS[0] + X[int(it) % 5][0]
    step = tg.value_and_grad(f)
    with pytest.warns(RetraceWarning, match="what keeps changing is no input"):
        for it in range(20):
            expected = float(np.sum(W) * (CALLS[0] + 1.0) + X[it % 5][0])
            assert step(W, it % 5)[0] == pytest.approx(expected)


def test_a_tape_that_looks_constants_up_plays_prints_and_is_refused_as_a_file(tmp_path: Any) -> None:
    step = tg.value_and_grad(one_array)
    for it in range(12):
        step(W, it)
    tape, = step.tapes
    same(tape.play(W, 7), tg.grad(one_array, W, 7))
    assert "choose(" in str(tape)
    for way in (tape.to_python, lambda: tape.save(tmp_path / "tape")):
        with pytest.raises(TapeError):
            way()
    table = next(op.kwargs["table"] for op in tape if op.kind == "call" and op.fn.__name__ == "choose")
    assert repr(table) == "<5 rows>"
    table.rows.pop((4, 6))
    with pytest.raises(TapeError, match="no trace was taken this way: index 4, index 6"):
        tape.play(W, 2)
    same(step(W, 2), tg.grad(one_array, W, 2))


def test_what_takes_longer_to_compare_than_to_trace_keeps_a_path_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    large = np.ones(3_000_000)
    monkeypatch.setitem(globals(), "LARGE", large)

    def f(x: float) -> Any:
        return x * LARGE[0]
    step = tg.value_and_grad(f)
    with pytest.warns(RetraceWarning, match="LARGE of tests.compile.test_rental would have to be compared at each call"):
        for _ in range(3):
            assert step(2.0)[0] == 2.0
    assert not step.tapes
    LARGE[0] = 3.0
    assert step(2.0)[0] == 6.0
    large.flags.writeable = False
    step = tg.value_and_grad(f)
    assert [step(2.0)[0] for _ in range(3)] == [6.0] * 3 and step.stats.hits == 2


LARGE: Any = None
CALLS = [0.0]


def test_paths_are_told_apart_once_compiling_may_soon_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(cache, "WARMUP", None)
    monkeypatch.setattr(cache, "Skeleton", lambda tape, was=cache.Skeleton: made.append(tape) or was(tape))
    now = [0.0]

    def clock() -> float:
        now[0] += 0.25
        return now[0]
    step = tg.value_and_grad(lambda a, b: a * b)
    step._backend.clock = clock  # type: ignore[attr-defined]
    step._pace = Pace(4.0, 0.0, 0.0)  # type: ignore[attr-defined]
    for k in range(30):
        assert step(2.0, k + 1.0)[0] == 2.0 * (k + 1)
    assert 1 < len(made) < 4 < 12 < step.stats.traces < 20 and step.stats.hits > 9  # sixteen calls cost what compiling does


@pytest.fixture
def rented(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, list[Any]]]:
    """Return what makes a compiled function of which each call takes a second by its clock, and a list of the tapes that are looked at."""
    monkeypatch.setattr(cache, "WARMUP", None)

    def make(f: Callable[..., Any], once: float) -> tuple[Any, list[Any]]:
        made: list[Any] = []
        monkeypatch.setattr(cache, "Skeleton", lambda tape, was=cache.Skeleton: made.append(tape) or was(tape))
        now = [0.0]

        def clock() -> float:
            now[0] += 0.25
            return now[0]
        step = tg.value_and_grad(f)
        step._backend.clock = clock  # type: ignore[attr-defined]
        step._pace = Pace(once, 0.0, 0.0, heard=0.0)  # type: ignore[attr-defined]
        return step, made
    return make


def test_a_call_that_is_not_looked_at_records_what_grad_does(rented: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr(cache, "record", lambda *args, was=cache.record, **given: told.append(given["replays"]) or was(*args, **given))
    step, made = rented(lambda x: np.sum(x[1:] * x[:-1]), 100.0)
    for _ in range(30):
        same(step(X), tg.grad(lambda x: np.sum(x[1:] * x[:-1]), X))
    assert told == [True] + [False] * 29 and not made


def test_nobody_looks_on_where_each_call_takes_a_new_path(rented: Any) -> None:
    step, made = rented(lambda x, k: x * float(int(k)), 4.0)
    with pytest.warns(RetraceWarning, match="took another path"):
        for k in range(400):
            assert step(2.0, k)[0] == 2.0 * k
    assert 12 < len(made) < 100 and step.stats.hits == 0


def test_paths_that_come_again_after_a_while_are_found(rented: Any) -> None:
    def f(w: Any, it: int) -> Any:
        i = it % 29
        return np.sum(np.tanh(X[i:i + 2] @ w))
    step, made = rented(f, 8.0)
    for it in range(1200):
        value = step(W, it)[0]
        if it % 17 == 0:
            assert value == pytest.approx(f(W, it), rel=1e-12)
    assert step.stats.hits > 400 and len(made) < 400


def test_one_disturbed_measurement_changes_little_and_many_agree() -> None:
    pace = Pace(1.0, 0.0, 0.0)
    pace.learn(1.0, 100.0)
    assert pace.estimate(5, 5) < 2.0
    for _ in range(60):
        pace.learn(pace.estimate(5, 5), 0.5)
    assert pace.estimate(5, 5) == pytest.approx(0.5, rel=0.05)
    assert Pace(0.0, 1.0, 0.0).estimate(1999, 7) == 2006.0 and Pace(1.0, 1.0, 2.0).estimate(2000, 7) == 17.0


@pytest.mark.parametrize("program", [*SMALL, *TRAINING], ids=lambda program: program.name)
def test_the_programs_of_the_benchmark(program: Program) -> None:
    if program.name in ("VAE", "GAN"):  # they draw
        return
    step = tg.value_and_grad(program.f)
    for it in (0, 0, 1, 1, 0):
        same(step(*program.args(it)), tg.grad(program.f, *program.args(it)))


def test_the_benchmark_measures() -> None:
    row = rental.measure(SMALL[0], (1, 2, 5), 1, "numpy")
    assert row["program"] == "two scalars" and len(row["ratios"]) == len(row["grad"]) == 3 and min(row["ratios"]) > 0
    assert rental.extended([1.0, 3.0], (1, 2, 5)) == [1.0, 3.0, 9.0]
    assert pickle.loads(pickle.dumps(row)) == row
    assert rental.table("n calls", [row]).row_count == 1 and len(rental.sparkline([0.1, 9.0])) == 2
