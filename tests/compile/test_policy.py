"""When a compiled function traces and when it compiles; tapes that look constants up by integers; what is too large to be compared."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench import amortised
from bench.programs import SMALL, TRAINING, Program
from tapegrad.compile import attempt, cache
from tapegrad.compile.path import RetraceWarning
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
    step = tg.value_and_grad(f, argnums=None)
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
    step = tg.value_and_grad(one_array, argnums=None)
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
    step = tg.value_and_grad(f, argnums=None)
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
        step = tg.value_and_grad(fn, argnums=None)
        for it in range(25):
            same(step(W, it), tg.grad(fn, W, it))
        assert step.stats.hits >= 9


def test_a_counter_is_no_row_of_a_table() -> None:
    def f(w: Any, it: int) -> Any:
        CALLS[0] += 1
        return np.sum(w) * CALLS[0] + X[int(it) % 5][0]
    step = tg.value_and_grad(f, argnums=None)
    with pytest.warns(RetraceWarning, match="a value that is not an argument changes"):
        for it in range(20):
            expected = float(np.sum(W) * (CALLS[0] + 1.0) + X[it % 5][0])
            assert step(W, it % 5)[0] == pytest.approx(expected)


def test_a_tape_that_looks_constants_up_plays_prints_and_is_refused_as_a_file(tmp_path: Any) -> None:
    step = tg.value_and_grad(one_array, argnums=None)
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
    with pytest.raises(TapeError, match="no recorded trace took this path: index 4, index 6"):
        tape.play(W, 2)
    same(step(W, 2), tg.grad(one_array, W, 2))


def test_what_takes_longer_to_compare_than_to_trace_keeps_a_path_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    large = np.ones(3_000_000)
    monkeypatch.setitem(globals(), "LARGE", large)

    def f(x: float) -> Any:
        return x * LARGE[0]
    step = tg.value_and_grad(f, argnums=None)
    with pytest.warns(RetraceWarning, match="LARGE of tests.compile.test_policy has .* bytes, and comparing them at each call"):
        for _ in range(3):
            assert step(2.0)[0] == 2.0
    assert not step.tapes
    LARGE[0] = 3.0
    assert step(2.0)[0] == 6.0
    large.flags.writeable = False
    step = tg.value_and_grad(lambda x: f(x), argnums=None)
    assert [step(2.0)[0] for _ in range(3)] == [6.0] * 3 and step.stats.hits == 2


LARGE: Any = None
CALLS = [0.0]


def by_sign(x: float) -> Any:
    return x * x if x > 0 else x


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let functions decide for themselves when they compile."""
    monkeypatch.setattr(cache, "WARMUP", None)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the tapes that are compared with known paths."""
    tapes: list[Any] = []
    monkeypatch.setattr(cache, "Skeleton", lambda tape, stored, was=cache.Skeleton: tapes.append(tape) or was(tape, stored))
    return tapes


def traces(step: Any, calls: Any) -> str:
    """Return of each call whether it was traced, "t", or compiled, "c"."""
    found = ""
    for args in calls:
        before = step.stats.traces
        same(step(*args), tg.grad(step.__wrapped__, *args))
        found += "t" if step.stats.traces > before else "c"
    return found


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("xs", "expected"), [
    ((1.0, 2.0, 3.0, 4.0), "ttcc"),
    ((1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0), "tttttccc"),  # after two new paths the next call is not observed
    ((1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0), "ttcttcc"),
    ((1.0, 1, 2.0, 2, 3.0, 3, 4.0, 4), "tttttccc"),  # another kind of argument
])
def test_the_third_call_of_a_path_is_compiled(xs: Any, expected: str) -> None:
    assert traces(tg.value_and_grad(by_sign, argnums=None), [(x,) for x in xs]) == expected


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("how", [{}, {"mode": "native"}, {"backend": "torch"}, {"mode": "numpy"}])
def test_on_every_backend(how: dict[str, str]) -> None:
    if "native" in how.values():
        pytest.importorskip("llvmlite")
    step, fast = tg.value_and_grad(by_sign, argnums=None, **how), tg.compile(by_sign, **how)
    for x in (1.0, 2.0, 3.0, 4.0):
        assert float(step(x)[0]) == float(fast(x)) == x * x
    assert [made.stats.traces for made in (step, fast)] == [2, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("warmup", [1, 2, 5])
def test_so_many_calls_are_traced_as_warmup_says(warmup: int) -> None:
    assert traces(tg.value_and_grad(by_sign, argnums=None, warmup=warmup), [(2.0,)] * 8) == "t" * warmup + "c" * (8 - warmup)


@pytest.mark.usefixtures("alone")
def test_a_long_tape_is_traced_for_as_long_as_it_takes_to_compile_it(compared: list[Any]) -> None:
    step: Any = tg.value_and_grad(by_sign, argnums=None)
    now = [0.0]

    def clock() -> float:
        now[0] += 0.5
        return now[0]
    step.backend.clock, step.backend.price = clock, (50.0, 0.0)
    assert traces(step, [(2.0,)] * 120) == "t" * 101 + "c" * 19  # the last trace is the one that is observed
    seconds, = [path.spent for paths in step.paths.values() for path in paths]
    assert seconds == 50.5 and len(compared) == 2  # those between record what `grad` does


@pytest.mark.usefixtures("alone")
def test_few_calls_are_compared_where_each_takes_a_new_path(compared: list[Any]) -> None:
    step: Any = tg.value_and_grad(lambda x, k: x * float(int(k)), argnums=None)
    with pytest.warns(RetraceWarning, match="each took a new path"):
        for k in range(640):
            assert step(2.0, k)[0] == 2.0 * k
    assert step.stats.hits == 0 and len(compared) == 64 + 36
    for _ in range(80):
        step(2.0, 7)
    assert step.stats.hits > 40  # a path that comes again is found


@pytest.mark.usefixtures("alone")
def test_few_calls_are_compared_of_a_path_that_is_refused(compared: list[Any]) -> None:
    def f(x: float) -> Any:
        CALLS[0] += 1
        return x * CALLS[0] if x > 0 else x
    step: Any = tg.value_and_grad(f, argnums=None)
    with pytest.warns(RetraceWarning, match="a value that is not an argument changes") as caught:
        for _ in range(320):
            assert step(2.0)[0] == 2.0 * CALLS[0]
    assert len(caught) == 1 and step.stats.hits == 0 and 64 <= len(compared) < 64 + 20


@pytest.mark.usefixtures("alone")
def test_new_paths_among_known_ones_are_not_observed(compared: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[Any] = []
    monkeypatch.setattr(attempt, "Observer", lambda budget, was=attempt.Observer: observed.append(budget) or was(budget))
    step: Any = tg.value_and_grad(lambda x, k: x * float(int(k)), argnums=None)
    with pytest.warns(RetraceWarning, match="new argument types, shapes or branches"):
        for k in range(400):
            assert step(2.0, 0)[0] == 0.0 and step(2.0, k)[0] == 2.0 * k
    assert step.stats.hits >= 399 and len(observed) < 8 and len(compared) < 64 + 400 / 16 + 4


@pytest.mark.usefixtures("alone")
def test_paths_that_come_again_after_a_while_are_found() -> None:
    def f(w: Any, it: int) -> Any:
        i = it % 29
        return np.sum(np.tanh(X[i:i + 2] @ w))
    step: Any = tg.value_and_grad(f, argnums=None)
    for it in range(400):
        value = step(W, it % 58)[0]
        if it % 17 == 0:
            assert value == pytest.approx(f(W, it), rel=1e-12)
    assert step.stats.hits > 200


@pytest.mark.usefixtures("alone")
def test_what_is_stored_and_what_is_read_decides_too() -> None:
    step: Any = tg.value_and_grad(lambda x: x * RATES[0], argnums=None)
    assert traces(step, [(2.0,)] * 4) == "ttcc"
    try:
        RATES[0] = 5.0
        assert traces(step, [(2.0,)] * 4) == "ttcc"
    finally:
        RATES[0] = 0.1
    assert traces(step, [(2.0,)] * 2) == "cc"


@pytest.mark.parametrize("program", [*SMALL, *TRAINING], ids=lambda program: program.name)
def test_the_programs_of_the_benchmark(program: Program) -> None:
    if program.name in ("VAE", "GAN"):  # they draw
        return
    step = tg.value_and_grad(program.f, argnums=None)
    for it in (0, 0, 1, 1, 0):
        same(step(*program.args(it)), tg.grad(program.f, *program.args(it)))


def test_the_benchmark_measures() -> None:
    row = amortised.measure(SMALL[0], (1, 2, 5), 1, "numpy")
    assert row["program"] == "two scalars" and len(row["ratios"]) == len(row["grad"]) == 3 and min(row["ratios"]) > 0
    assert amortised.extended([1.0, 3.0], (1, 2, 5)) == [1.0, 3.0, 9.0]
    assert pickle.loads(pickle.dumps(row)) == row
    assert amortised.table("n calls", [row]).row_count == 1 and len(amortised.sparkline([0.1, 9.0])) == 2
