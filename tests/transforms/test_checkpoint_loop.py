"""checkpoint_loop: the gradient of a long loop by few of its states, at the known least number of steps."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.ops.binomial import forward_steps, kept, schedule
from tapegrad.ops.steps import Steps
from tests.harness.run import peak

X, V = np.array([0.3, 1.0]), np.zeros(2)


def step(state: Any, rate: Any) -> Any:
    x, v = state
    v = v - 0.01 * rate * np.sin(x)
    return x + 0.01 * v, v


def plain(n: int) -> Any:
    def f(x: Any, v: Any, rate: Any) -> Any:
        state = x, v
        for _ in range(n):
            state = step(state, rate)
        return np.sum(state[0] ** 2)
    return f


def few(n: int, slots: int) -> Any:
    run = tg.checkpoint_loop(n, slots)(step)
    return lambda x, v, rate: np.sum(run((x, v), rate)[0] ** 2)


@functools.cache
def least(n: int, slots: int) -> int:
    """Return the number of steps forward by the recursion that defines it, trying every place for the next state that is kept."""
    if n == 1 or slots == 1:
        return n * (n - 1) // 2
    return min(k + least(n - k, slots - 1) + least(k, slots) for k in range(1, n))


@pytest.mark.quick
@pytest.mark.parametrize("slots", [1, 2, 3, 5, 8])
def test_the_schedule_is_the_binomial_one(slots: int) -> None:
    for n in [*range(1, 60), 100]:
        assert forward_steps(n, slots) == least(n, slots)
        states, taken, ahead = set(kept(n, slots)), kept(n, slots)[-1], n
        for start, stop, keeps in schedule(n, slots):
            assert start == max(states) and start <= stop < ahead
            taken += stop - start
            if keeps:
                states.add(stop)
            else:
                ahead = stop
                states -= {stop}
            assert len(states) <= slots
        assert ahead == 0 and taken == least(n, slots)


def test_a_hundred_thousand_steps_with_thirty_states() -> None:
    assert sum(stop - start for start, stop, _ in schedule(100_000, 30)) + kept(100_000, 30)[-1] == forward_steps(100_000, 30) == 447_640


@pytest.mark.parametrize(("n", "slots"), [(1, 1), (2, 1), (7, 2), (50, 3), (50, 60)])
def test_values_and_gradients_are_those_of_the_loop(n: int, slots: int) -> None:
    f, g = few(n, slots), plain(n)
    tape, expected = tg.trace(f, X, V, 2.0)[1], tg.grad(g, 2 * X, V, 1.5)
    assert f(X, V, 2.0) == g(X, V, 2.0)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for found in (tg.grad(f, 2 * X, V, 1.5), tg.gradtape(f, X, V, 2.0).play(2 * X, V, 1.5), tg.flatgrad(tape).play(2 * X, V, 1.5),
                  tg.flatgrad(tg.optimise(tape)).play(2 * X, V, 1.5), *[step(2 * X, V, 1.5) for _ in range(3)]):
        np.testing.assert_allclose(found[0], expected[0])
        for a, b in zip(found[1][1:], expected[1][1:]):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, 1e-12, 1e-14)
    assert step.stats.hits == 2  # type: ignore[attr-defined]
    assert f"{n} x step with {slots} kept" in str(tape) and tape.check() is tape


@pytest.mark.parametrize("first", [(X, V), (0.3, 0.0), (X.astype(np.float32), V.astype(np.float32)), (np.float64(0.3), 0.0)])
def test_long_loops_are_compiled(first: Any) -> None:
    f, g = few(400, 6), plain(400)
    value, (_, *found) = tg.grad(f, *first, 2.0)
    expected, (_, *gradients) = tg.grad(g, *first, 2.0)
    tolerance = 1e-4 if np.asarray(first[0]).dtype == np.float32 else 1e-12
    np.testing.assert_allclose(value, expected, tolerance)
    for a, b in zip(found, gradients):
        np.testing.assert_allclose(a, b, tolerance)


def test_what_a_later_step_may_not_do() -> None:
    def branching(x: Any) -> Any:
        return x * 1.001 if x[0] < 0.5 else x
    with pytest.raises(tg.GuardError, match="a later step takes another path"):
        tg.gradient(lambda x: tg.checkpoint_loop(1000, 3)(branching)(x).sum(), X)


def test_an_error_of_a_later_step_is_guarded() -> None:
    def f(x: Any) -> Any:
        try:
            return tg.checkpoint_loop(5, 2)(lambda x: np.linalg.inv(x.reshape(1, 1))[0] - 1)(x).sum()
        except np.linalg.LinAlgError:
            return 2 * x.sum()
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for first in (0.3, 0.3, 0.3, 1.0, 1.0, 1.0, 0.3, 1.0):  # 1, 0, and there is no inverse
        x = np.array([first])
        np.testing.assert_array_equal(step(x)[1][1], tg.gradient(f, x)[0])
        assert first < 1 or step(x)[1][1] == 2.0
    with pytest.raises(tg.TapeError):
        tg.trace(f, np.array([1.0]))[1].play(np.array([0.3]))


def test_the_steps_that_are_taken() -> None:
    counts = {"advanced": 0}

    class Counted(Steps):
        def advance(self, values: Any, state: Any, start: int, stop: int) -> Any:
            counts["advanced"] += stop - start
            return super().advance(values, state, start, stop)
    n, slots = 200, 5
    tape = tg.trace(few(n, slots), X, V, 2.0)[1]
    op = next(op for op in tape if op.kind == "call" and type(op.fn) is Steps)
    op.fn = Counted(op.fn.loop, slots)
    tg.gradtape(tape).play(X, V, 2.0)
    flat = tg.flatgrad(tape)
    counts["advanced"] = 0
    flat.play(X, V, 2.0)
    # n for the value, of which those up to the last state that is kept serve the sweep too
    assert counts["advanced"] == n + forward_steps(n, slots) - kept(n, slots)[-1]


def test_derivatives_of_any_order() -> None:
    f, g = few(12, 3), plain(12)
    np.testing.assert_allclose(tg.hessian(f)(X, V, 2.0), tg.hessian(g)(X, V, 2.0), 1e-10)
    np.testing.assert_allclose(tg.hvp(f)(X, X, V, 2.0), tg.hvp(g)(X, X, V, 2.0), 1e-10)
    np.testing.assert_allclose(*[tg.jvp(h, (X, V, 2.0), (X, None, 1.0))[1] for h in (f, g)])
    np.testing.assert_allclose(*[tg.gradient(lambda x, h=h: tg.gradient(h, x, V, 2.0)[2], X)[0] for h in (f, g)])
    rows = np.stack([X, 2 * X])
    np.testing.assert_allclose(*[tg.vmap(lambda x, h=h: tg.gradient(h, x, V, 2.0)[0])(rows) for h in (f, g)])
    np.testing.assert_allclose(*[tg.gradient(lambda rows, h=h: tg.vmap(lambda x: h(x, V, 2.0))(rows).sum(), rows)[0] for h in (f, g)])


def test_tensors_and_what_a_step_has_captured() -> None:
    w = torch.tensor([[0.1, 0.2], [0.3, -0.1]], dtype=torch.float64)

    def f(w: Any, x: Any) -> Any:
        return tg.checkpoint_loop(10, 3)(lambda x: x + 0.1 * torch.tanh(w @ x))(x).sum()

    def g(w: Any, x: Any) -> Any:
        for _ in range(10):
            x = x + 0.1 * torch.tanh(w @ x)
        return x.sum()
    t = torch.tensor(X)
    compiled = tg.value_and_grad(f, argnums=None, backend="torch", warmup=1)
    for found in (tg.grad(f, w, t), compiled(w, t), compiled(w, t), compiled(w, t)):
        for a, b in zip(found[1][1:], tg.grad(g, w, t)[1][1:]):
            torch.testing.assert_close(a, b)
    for a, b in zip(tg.gradtape(few(5, 2), X, V, 2.0).play(t, torch.tensor(V), 2.0)[1][1:3], tg.gradient(plain(5), X, V, 2.0)):
        np.testing.assert_allclose(a, b)


def test_a_rolled_loop_may_keep_few_states() -> None:
    rolled = tg.roll(tg.trace(plain(100), X, V, 2.0)[1], saved=0)
    flat = tg.flatgrad(rolled, slots=4)
    expected = tg.grad(plain(100), 2 * X, V, 1.5)
    found = flat.play(2 * X, V, 1.5)
    np.testing.assert_allclose(found[0], expected[0])
    for a, b in zip(found[1][1:], expected[1][1:]):
        np.testing.assert_allclose(a, b, 1e-12)
    assert "with 4 kept" in str(flat)

    def numbered(x: Any) -> Any:
        for k in range(30):
            x = x + 0.1 * k * np.sin(x)
        return x.sum()
    flat = tg.flatgrad(tg.roll(tg.trace(numbered, X)[1], saved=0), slots=3)
    np.testing.assert_allclose(flat.play(X)[1][1], tg.gradient(numbered, X)[0], 1e-12)


def test_it_keeps_few_states() -> None:
    x, peaks = np.random.default_rng(0).random(20_000), []
    run = tg.checkpoint_loop(60, 6)(lambda x: x + 0.01 * np.sin(x))

    def loop(x: Any) -> Any:
        for _ in range(60):
            x = x + 0.01 * np.sin(x)
        return x.sum()
    for f in (lambda x: run(x).sum(), loop):
        peaks.append(peak(lambda f=f: tg.gradient(f, x))[0] / x.nbytes)
    assert peaks[0] < 20 and peaks[1] > 60


@pytest.mark.parametrize("compiled", [False, True])
def test_memory_grows_with_the_states_that_are_kept_and_not_with_the_steps(compiled: bool) -> None:
    x = np.random.default_rng(0).random(5_000)

    def most(n: int, slots: int) -> float:
        run = tg.checkpoint_loop(n, slots)(lambda x: x + 0.01 * np.sin(x))
        step = tg.value_and_grad(lambda x: run(x).sum(), argnums=0, warmup=1)
        sweep = step if compiled else lambda x: tg.gradient(lambda x: run(x).sum(), x)
        for _ in range(3 if compiled else 1):
            sweep(x)
        return peak(lambda: sweep(x))[0] / x.nbytes
    for counts in ((50, 100), (300, 600)):  # of long loops steps are compiled
        few, many, wide = (most(n, slots) for n, slots in zip((*counts, counts[1]), (6, 6, 40)))
        assert many < few + 2 and few < 14 + 6
        assert 20 < wide - many < 38  # one state a slot


def test_kept_states_that_somebody_else_holds_are_not_written_to() -> None:
    fixed, x = np.ones(3), np.array([0.5, 1.0, 1.5])
    steps: list[Any] = [lambda s, v: (s[0] * v, s[1]), lambda s, v: (s[1] * v, s[0]), lambda s, v: (s[0][::-1], s[1] * v), lambda s, v: (s[0] * s[1], fixed)]
    seed, v = (np.arange(1.0, 4.0), np.ones(3)), np.array([0.9, 1.0, 1.1])
    for step in steps:
        def looped(x: Any, v: Any, step: Any = step) -> Any:
            return tg.checkpoint_loop(30, 4)(step)((x, x * 1.01), v)

        def plain(x: Any, v: Any, step: Any = step) -> Any:
            s = (x, x * 1.01)
            for _ in range(30):
                s = step(s, v)
            return s
        expected = tg.grad(plain, x, v, seed=seed)
        close(tg.grad(looped, x, v, seed=seed), expected)
        compiled = tg.value_and_grad(lambda x, v, of=looped: (lambda s: ((s[0] * seed[0]).sum() + s[1].sum(), s))(of(x, v)), argnums=None, has_aux=True, warmup=1)
        for _ in range(4):
            (_, found), slopes = compiled(x, v)
            close((found, slopes[1:]), (expected[0], expected[1][1:]))
        assert compiled.stats.hits >= 2  # type: ignore[attr-defined]
        assert fixed.tolist() == [1.0, 1.0, 1.0] and x.tolist() == [0.5, 1.0, 1.5]
        _, back = tg.pullback(looped, x, v)
        close(back(seed)[1:], back(seed)[1:])


def close(found: Any, expected: Any) -> None:
    from tapegrad.tree.flatten import leaves_of
    for a, b in zip(leaves_of(found), leaves_of(expected), strict=True):
        np.testing.assert_allclose(a, b, 1e-12)


def test_what_is_no_step() -> None:
    rng = np.random.default_rng(0)

    def branching(x: Any) -> Any:
        return x * 2 if x[0] < 1 else x + 1

    def counting(x: Any) -> Any:
        COUNTER.append(1)
        return x * len(COUNTER)
    for body, message in ((lambda x: (x, x), "same nesting as the first argument"), (lambda x: x[:1], "which was float64"), (branching, "another path"),
                          (lambda x: x * 4 if x[0] < 1 else x, "the second step"),
                          (lambda x: x * rng.normal(), "random numbers|the second step"), (counting, "the second step")):
        with pytest.raises(tg.TapeError, match=message):
            tg.gradient(lambda x, body=body: tg.checkpoint_loop(9, 3)(body)(x).sum(), X)
    for args in ((0, 3), (3, 0), (2.5, 3)):
        with pytest.raises(tg.ArgumentError, match="an integer, 1 or more"):
            tg.checkpoint_loop(*args)
    np.testing.assert_array_equal(tg.checkpoint_loop(9, 3)(branching)(X), [8.2, 11.0])


def test_what_cannot_leave_says_so(tmp_path: Path) -> None:
    tape = tg.trace(few(5, 2), X, V, 2.0)[1]
    with pytest.raises(tg.TapeFormatError, match="a loop that keeps states"):
        tape.save(tmp_path / "f.tape")
    with pytest.raises(tg.ArgumentError):
        tg.flatgrad(tape).to_python()


COUNTER: list[int] = []
