"""Loops: rolled tapes compute what the programs do, whatever their loops carry, write, collect and look at."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import ops
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.ops.structure import put_results
from tapegrad.optimise.dce import dce
from tapegrad.optimise.pipeline import DEFAULT
from tapegrad.optimise.repeat_detection import segments
from tapegrad.optimise.roll import roll
from tapegrad.tape.tape import Constant, Input, Tape, call
from tapegrad.transforms.loop_types import NoLoop
from tapegrad.transforms.unroll import unroll
from tapegrad.tree.flatten import leaves_of
from tests.harness.compare import same
from tests.optimise.loop_programs import arguments, made
from tests.test_promises import kept
from tests.threads import at_once

ERRORS = (ValueError, TypeError, IndexError, ArithmeticError, tg.TapeError)
X = np.linspace(0.4, 1.3, 8)


@pytest.fixture(autouse=True)
def rolling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a loop of whatever is repeated once, however short it is."""
    monkeypatch.setattr(sys.modules["tapegrad.optimise.roll"].roll, "__defaults__", (2, 0))


def parts(result: Any) -> list[Any]:
    return list(map(kept, leaves_of(result)))


def sets_of(f: Callable[..., Any], seed: int) -> list[tuple[tuple[Any, ...], Any, Any]]:
    """Return arguments at which a program runs and gives moderate numbers, with its value and its gradient there."""
    found = []
    for args in arguments(seed):
        try:
            value, expected = f(*map(kept, args)), tg.grad(f, *map(kept, args))
        except ERRORS:
            continue
        if np.isfinite(value) and abs(value) < 1e5 and all(np.all(np.abs(dx) < 1e6) for dx in expected[1][1:]):
            found.append((args, value, expected))
    return found


def close(found: Any, expected: Any, args: tuple[Any, ...]) -> None:
    same(found, expected, 1e-3 if any(np.asarray(x).dtype == np.float32 for x in args) else 1e-6)


def served(f: Callable[..., Any], sets: list[tuple[tuple[Any, ...], Any, Any]], rounds: int = 4) -> None:
    """Check compiled calls at several arguments in turn: results, that they are the caller's own, and that arguments stay as they were."""
    gradients = partial(tg.value_and_grad, argnums=None)
    step, fast, bare = (make(f, max_tapes=99, passes=passes) for make, passes in (
        (gradients, DEFAULT), (tg.compile, DEFAULT), (gradients, ())))
    before = [[kept(x) for x in args] for args, _, _ in sets]
    olds = []
    for _ in range(rounds):
        for args, value, expected in sets:
            for run, result in ((step, expected), (fast, value), (bare, expected)):
                found = run(*args)
                close(found, result, args)
                olds.append((found, parts(found)))
    for found, was in olds:
        for a, b in zip(parts(found), was):
            np.testing.assert_array_equal(a, b)
    for (args, _, _), xs in zip(sets, before):
        for x, y in zip(args, xs):
            np.testing.assert_array_equal(x, y)


def forms(rolled: Tape, number: int) -> tuple[dict[str, Tape], dict[str, Tape]]:
    """Return what is made of a rolled tape, and of its gradient, where that has loops."""
    one = DEFAULT[number % len(DEFAULT)]
    values = {"rolled": rolled, "unrolled": unroll(rolled), "optimised": tg.optimise(rolled), "bare": tg.optimise(rolled, passes=[])}
    try:
        flat = tg.flatgrad(rolled)
    except NoLoop:
        return values, {}
    return values, {"flat": flat, "unrolled": unroll(flat), "by one pass": tg.optimise(flat, passes=[one])}


def played(f: Callable[..., Any], sets: list[tuple[tuple[Any, ...], Any, Any]], number: int) -> bool:
    """Check the tapes that are made of a program's rolled one, played and compiled; return whether it has loops."""
    tape = tg.trace(f, *map(kept, sets[0][0]))[1]
    rolled = roll(tape)
    values, gradients = forms(rolled.check(), number)
    compiled = {made_of_it: tg.compile(made_of_it) for made_of_it in (*values.values(), *gradients.values())}
    for args, value, expected in sets:
        try:
            tape.play(*map(kept, args))
        except tg.GuardError:
            for made_of_it in values.values():
                with pytest.raises(tg.GuardError):
                    made_of_it.play(*args)
            continue
        except tg.TapeError:
            continue
        for made_of_it, result in [*((t, value) for t in values.values()), *((t, expected) for t in gradients.values())]:
            for run in (made_of_it.play, compiled[made_of_it]):
                try:
                    found = run(*args)
                except tg.GuardError:  # of the types that a gradient, a pass or a compiled tape is specialised to
                    assert run != rolled.play and run != values["unrolled"].play
                else:
                    close(found, result, args)
    return any(map(is_loop, rolled.ops))


@pytest.mark.parametrize("start", range(0, 12, 6))
def test_programs_made_at_random(start: int) -> None:
    ran = rolled = 0
    with np.errstate(all="ignore"):
        for seed in range(start, start + 6):
            f = made(seed)
            sets = sets_of(f, seed)
            if sets:
                served(f, sets, 2)
                rolled += played(f, sets, seed)
                ran += 1
    assert ran >= 4 and 2 * rolled >= ran


def agrees(f: Callable[..., Any], *sets: tuple[Any, ...], loops: int = 1) -> None:
    """Check a function of one's own, whose tape has so many loops at least."""
    expected = [(args, f(*map(kept, args)), tg.grad(f, *map(kept, args))) for args in sets]
    assert sum(map(is_loop, roll(tg.trace(f, *map(kept, sets[0]))[1]).ops)) >= loops
    served(f, expected)
    played(f, expected, 0)


@pytest.mark.quick
def test_a_loop_that_only_steers_the_program() -> None:
    def f(x: Any) -> Any:
        y, n = x[0] * 1.0, 0
        for _ in range(6):
            y = y * 1.5
            if y > 3:
                break
            n += 1
        return x.sum() * n
    agrees(f, (X / 40,), (X / 30,), (X * 100,), (X / 2,))

    def g(x: Any) -> Any:
        n = 0
        for i in range(6):
            y = x[i] * 1.0
            for _ in range(4):
                y = y * 1.5
                if y > 30:
                    n += 1
        return x.sum() * n
    agrees(g, (X,), (X * 2,), (X * 20,))


def test_an_array_written_in_place_and_kept_besides() -> None:
    def residuals(x: Any) -> Any:
        a, s = np.zeros(3), 0.0
        for i in range(8):
            a[i % 2] = a[1 - i % 2] * x[i] + 0.5
            s = s + (a ** 3).sum()
        return s
    agrees(residuals, (X,), (-X,))

    def last_one(x: Any) -> Any:
        a, before, s = x * 1.0, x * 2.0, 0.0
        for i in range(6):
            a[i] = np.sin(before[i]) + s
            s = s + a[2] * before[2]
            before = a.copy()
        return s
    agrees(last_one, (X,), (-X,))

    def listed(x: Any) -> Any:
        found, a = [], x * 1.0
        for i in range(7):
            a[0] = np.sin(a[1]) * a[0] * i
            found.append(a.sum())
        return np.sum(np.stack(found) ** 2) + (a * a).sum()
    agrees(listed, (X,), (-X,), loops=0)


def test_a_sum_and_a_view_of_the_one_before() -> None:
    def view(x: Any) -> Any:
        s, before, t = x * 1.0, x[1:] * 1.0, 0.0
        for _ in range(6):
            s = s + x
            t = t + s[0] * before[0] + s[1] * before[3]
            before = s[1:]
        return t
    agrees(view, (X,), (-X,))

    def itself(x: Any) -> Any:
        s, before, t = x * 1.0, x * 2.0, 0.0
        for _ in range(6):
            s, before = s + x, s
            t = t + s[0] * before[0]
        return t + before.sum()
    agrees(itself, (X,), (-X,))


def test_arrays_that_change_places() -> None:
    def f(x: Any) -> Any:
        a, b, t = np.zeros(8), np.zeros(8), 0.0
        for i in range(6):
            a[i] = x[i] * (i + 1)
            b[i] = a[i - 1] * 0.5 + t
            a, b = b, a
            t = t + a[i] * b[1]
        return t + (a * x).sum() + (b * b).sum()
    agrees(f, (X,), (-X,))

    def one_of_them(x: Any) -> Any:
        a, b = x * 1.0, x * 2.0
        for i in range(6):
            a[i] = a[i] * b[i]
            a, b = b, a
        return (a * x).sum() + (b * b).sum()
    agrees(one_of_them, (X,), (-X,), loops=0)


def test_what_is_written_before_and_behind_a_loop() -> None:
    def f(x: Any) -> Any:
        a, s = np.zeros(8), 0.0
        a[0] = x[0]
        for i in range(1, 7):
            s = s + (a * x).sum() ** 2
            a[i] = s
        a[7] = s * x[7]
        a[0] += 1.0
        return (a * a).sum() + s
    agrees(f, (X * 0.1,), (-X * 0.1,))


def test_a_table_filled_by_loops_in_loops() -> None:
    def f(x: Any) -> Any:
        out = np.zeros((8, 8))
        out[0] = x
        for i in range(1, 8):
            out[i, 0] = x[i]
            for j in range(1, 8):
                out[i, j] = out[i - 1, j] * out[i, j - 1] * 0.5 + 0.1
        return (out * np.arange(64.0).reshape(8, 8)).sum()
    agrees(f, (X,), (-X,))


def test_numbers_of_every_kind() -> None:
    def f(a: Any, b: Any) -> Any:
        for i in range(9):
            a, b = b, a * 0.5 + b * 0.25 + i
        return np.sum(abs(a) ** 2 + abs(b))
    agrees(f, (1.0, 2.0), (3.0, -1.0), (np.float64(1.0), np.float64(2.0)), (np.float32(1.0), np.float32(2.0)), (1, 2), (1j, 2.0 + 1j),
           (np.array(1.0), np.array(2.0)), (X, X * 2), (X.astype(np.float32), X.astype(np.float32)), (1.0, X), loops=0)

    def integers(n: Any, s: Any) -> Any:
        for _ in range(8):
            n = n * 7
            s = s * 0.5 + n % 5
        return s
    agrees(integers, (3, 1.0), (-5, 2.0), (10 ** 18, 0.5), (np.int64(3), 1.0))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308])
def test_numbers_without_an_end(special: float) -> None:
    def f(x: Any, s: Any) -> Any:
        for i in range(6):
            s = s * 0.5 + x[i] * i
            x = np.maximum(x, s)
        return x.sum() + s
    step, fast = tg.value_and_grad(f, argnums=None), tg.compile(f)
    with np.errstate(all="ignore"):
        for _ in range(3):
            for args in ((X, special), (X, 1.0), (np.where(X > 1, special, X), 1.0), (X[:6] * 0, np.float64(special))):
                same(step(*args), tg.grad(f, *args))
                same(fast(*args), f(*args))


def test_what_is_in_no_loop() -> None:
    rng = np.random.default_rng(0)

    @tg.primitive
    def noted(x: Any) -> Any:
        seen.append(x)
        return x * 2

    @tg.rrule(noted)
    def _(x: Any) -> Any:
        return noted(x), lambda dy: (dy * 2,)
    seen: list[Any] = []

    def calls(x: Any) -> Any:
        for _ in range(5):
            x = noted(x)
        return x

    def draws(x: Any) -> Any:
        for _ in range(5):
            x = x * rng.normal()
        return x
    assert not any(map(is_loop, roll(tg.trace(calls, 2.0)[1]).ops))
    loop, = (op.fn for op in roll(tg.trace(draws, 2.0)[1]).ops if is_loop(op))  # the numbers are drawn before it
    assert "draw" not in str(loop.body)


def test_several_threads() -> None:
    def f(x: Any) -> Any:
        a, s = np.zeros(8), 0.0
        for i in range(7):
            a[i] = x[i] * s + 1.0
            s = s + (a * np.sin(x)).sum()
        return s + (a * a).sum()
    step = tg.value_and_grad(f, argnums=None)
    points = [np.random.default_rng(k).normal(size=8) * 0.3 for k in range(8)]
    expected, wrong = [tg.grad(f, x) for x in points], list[int]()

    def work(k: int) -> None:
        for i in range(60):
            at = (k + i) % 8
            value, (_, dx) = step(points[at])
            if not (np.allclose(value, expected[at][0], 1e-9) and np.allclose(dx, expected[at][1][1], 1e-9)):
                wrong.append(at)
    at_once(work, range(4))
    assert not wrong and step.stats.hits > 230


def recurrence(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        s = x[0]
        for i in range(n):
            s = np.sin(s) + i * x[1]
        return s
    return f


def filling(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        out = np.zeros(n)
        for i in range(n):
            out[i] = out[i - 1] * 0.5 + x[0] * i
        return (out * out).sum()
    return f


def table(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        out = np.zeros((n // 8 + 1, 8))
        for i in range(1, n // 8 + 1):
            for j in range(1, 8):
                out[i, j] = out[i - 1, j] * 0.5 + out[i, j - 1] * x[j]
        return (out * out).sum()
    return f


@pytest.mark.parametrize("make", [recurrence, filling, table])
def test_a_rolled_tape_is_as_long_for_more_runs_and_made_in_time_linear_in_them(make: Callable[[int], Callable[[Any], Any]]) -> None:
    lengths, calls = [], []
    for n in (250, 1000, 4000):
        tape = tg.trace(make(n), X)[1]
        with cProfile.Profile() as profile:
            rolled = roll(tape)
            best = tg.optimise(tg.flatgrad(rolled))
            run = tg.compile(best)
        lengths.append((len(rolled), len(best), run.source.count("\n")))  # type: ignore[attr-defined]
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    assert lengths[0] == lengths[1] == lengths[2] and len(rolled) < 20 and len(best) < 40
    assert calls[2] - calls[1] < 5 * (calls[1] - calls[0])
    if make is not recurrence:  # a run writes one number, and copies no array
        body = run.source[run.source.index("for "):]  # type: ignore[attr-defined]
        assert "fill(0)" not in body and not any(".copy(" in line for line in body.split("\n") if line.startswith(" " * 12))


def test_what_each_run_makes_anew_and_is_the_same_in_all() -> None:
    """Its last use is behind a guard, so that a period is found which begins between the two."""
    def turned(q: Any, w: Any) -> Any:
        for _ in range(30):
            m = np.array([[0.0, -w[0], w[1]], [w[0], 0.0, -w[1]], [-w[1], w[1], 0.0]])
            q = q + 0.01 * m @ q
            q = q / np.sqrt(np.sum(q * q))
        return q[1]
    args = X[:3], X[4:6]
    value, tape = tg.trace(turned, *args)
    rolled = roll(tape, 8, 60)
    assert len(rolled) < len(tape) / 5
    assert rolled.play(*args) == value
    same(tg.value_and_grad(turned, (0, 1), warmup=1)(*args), (value, tg.grad(turned, *args)[1][1:]), 1e-12)


def test_segments_of_a_tape_without_repetition() -> None:
    def f(x: Any) -> Any:
        for k in range(1, 60):
            x = x[:-k].sum() + np.arange(float(k)) * x[0] if k % 2 else np.concatenate([x, np.ones(3 * k)])
        return x.sum()
    tape = tg.trace(f, np.ones(200))[1]
    with cProfile.Profile() as profile:
        assert segments(tape, 8) == []
    assert pstats.Stats(profile).total_calls < 200 * len(tape) + 20000  # type: ignore[attr-defined]


def test_no_nothing_flows_through_what_is_infinite() -> None:
    def f(x: Any) -> Any:
        a, t = x * 1.0, x[0]
        for i in range(8):
            a = a * a + t
            t = t * 0.5 + i
        return t * len(a)

    def nested(x: Any) -> Any:
        a, t = x * 1.0, x[0]
        for _ in range(8):
            for i in range(8):
                a = a * a + t
                t = t * 0.5 + i
        return t * len(a)
    for g in (f, nested):
        with np.errstate(all="ignore"):
            rolled = tg.roll(tg.trace(g, X[:3])[1], saved=0)
            x = np.array([1e200, np.nan, np.inf])
            np.testing.assert_array_equal(tg.flatgrad(rolled).play(x)[1][1], tg.grad(g, x)[1][1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_total_of_any_precision_has_a_gradient_that_is_a_loop(dtype: Any) -> None:
    def f(x: Any, w: Any) -> Any:
        total = 0.0
        for _ in range(30):
            x = np.tanh(w @ x)
            total = total + np.sum(x * x)
        return -total / 30
    args = np.linspace(0.1, 1.0, 4).astype(dtype), (np.eye(4) + 0.1).astype(dtype)
    tape = tg.flatgrad(tg.roll(tg.trace(f, *args)[1], saved=0), unrolls=False)
    value, gradients = tg.compile(tape)(*args)
    expected = tg.grad(f, *args)
    assert [x.dtype for x in leaves_of((value, gradients))] == [dtype] * 3
    for a, b in zip(leaves_of((value, gradients)), leaves_of(expected), strict=True):
        np.testing.assert_allclose(a, b, 1e-5 if dtype == np.float32 else 1e-12)


def test_a_constant_in_a_body_is_there_when_the_loop_is_unrolled() -> None:
    body = Tape(None, "loop")
    x = body.push(Input(np.zeros(3), "x"))
    put_results(body, [body.push(call(ops.add, x, body.push(Constant(np.array([1.0, 2.0, 3.0])))))])
    tape = Tape()
    given = tape.push(Input(np.zeros(3), "x"))
    tape.result = tape.push(call(ops.getfield, tape.push(call(Loop(body, 9, [], 0, 0, 1), given)), 0))
    x = np.array([0.5, 0.0, -1.0])
    for each in (tape, tg.unroll(tape)):
        np.testing.assert_array_equal(each.check().play(x), x + 9 * np.array([1.0, 2.0, 3.0]))


# -- what runs leave one by one, and higher orders


def orbit(x: Any, v: Any) -> Any:
    for _ in range(40):
        v = v - 0.05 * x * x
        x = x + 0.05 * v
    return x


def rotated(x: Any, a: Any) -> Any:
    for _ in range(40):
        k = np.sin(x) * a
        x = x + 0.05 * (k + np.sin(x + 0.5 * k) * a)
    return np.sum(x * x)


def filled(x: Any, a: Any) -> Any:
    y = np.zeros(41)
    y[0] = x[0]
    for i in range(40):
        y[i + 1] = np.sin(y[i]) * a + 0.1 * x[1]
    return np.sum(y ** 2)


def remembered(x: Any, a: Any) -> Any:
    seen = []
    for i in range(40):
        x = np.tanh(x) * a + 0.01 * i
        seen.append(x * x)
    for y in reversed(seen):
        a = a * 0.9 + y.sum() * 0.01
    return a + seen[3][0] * x[1]


ORDERS = [(orbit, (1.0, 0.5), (0.7, 0.9)), (rotated, (np.ones(3), 0.8), (np.array([0.2, 0.5, -0.4]), 1.1)),
          (filled, (np.ones(2), 0.9), (np.array([0.3, -0.4]), 1.1)), (remembered, (np.ones(3), 0.9), (np.array([0.3, 0.1, -0.4]), 1.1))]


@pytest.mark.parametrize(("f", "args", "others"), ORDERS, ids=lambda x: getattr(x, "__name__", ""))
def test_gradients_of_gradients_are_loops(f: Any, args: Any, others: Any) -> None:
    """A gradient recorded in a program is rolled; so is the gradient of a tape of loops: each is as its unrolled tape."""
    seed = (1.0, (None, *[np.cos(np.arange(float(np.size(x)))) if np.ndim(x) else 0.7 for x in args]))
    recorded = tg.trace(lambda *args: [dx * weight for dx, weight in zip(tg.gradient(f, *args), seed[1][1:])], *args)[1]
    tape = tg.trace(f, *args)[1]
    first = tg.flatgrad(tg.roll(tape), unrolls=False)
    second = tg.flatgrad(first, seed, unrolls=False)
    plain = tg.flatgrad(tg.flatgrad(tape), seed)
    assert len(tg.roll(recorded)) < 200 and len(second) < 250 and len(plain) > 1000
    for made_of_it, expected in ((tg.roll(recorded), recorded), (second, plain), (tg.unroll(second), plain)):
        for run in (made_of_it.play, tg.compile(made_of_it), tg.compile(made_of_it, backend="torch")):
            for xs in (args, others):
                for a, b in zip(leaves_of(run(*map(kept, xs))), leaves_of(expected.play(*map(kept, xs)))):
                    np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-9, 1e-12)


def test_the_gradient_of_a_recorded_gradient_is_loops() -> None:
    step = tg.value_and_grad(lambda x, v: tg.gradient(orbit, x, v)[0] ** 2, argnums=None, warmup=1)
    for _ in range(3):
        value, (_, dx, dv) = step(0.7, 0.9)
    [tape] = step.tapes
    assert len(tape) < 200
    expected = tg.hessian(lambda z: orbit(z[0], z[1]))(np.array([0.7, 0.9]))[0] * 2 * value ** 0.5
    np.testing.assert_allclose([dx, dv], expected * np.sign(tg.gradient(orbit, 0.7, 0.9)[0]), 1e-9)


def test_elements_of_what_a_loop_collected_on_torch() -> None:
    """They were constants of the compiled program."""
    def picked(x: Any) -> Any:
        seen = [np.sin(x[i]) + 0.1 * i for i in range(4)]
        return seen[3] + seen[0] * x[2]
    tape = tg.roll(tg.trace(picked, X)[1])
    for x in (X, X * 2, -X):
        assert float(tg.compile(tape, backend="torch")(x)) == pytest.approx(picked(x))


def test_arrays_of_each_run_are_listed() -> None:
    rows = [np.cos(np.arange(3.0) + k) for k in range(5)]

    def f(x: Any) -> Any:
        for row in rows:
            x = x * row + np.ones(3)
        return np.sum(x)
    agrees(f, (np.ones(3),), (np.arange(3.0),))


@pytest.mark.parametrize("rule", [lambda dy: (float(np.sum(dy)),), lambda dy: (np.sum(dy) if dy[0] > 0.5 else 0.0,)])
def test_rules_that_look_at_what_a_loop_hands_them(rule: Any) -> None:
    """The cotangents that a loop of the sweep returns are samples, as long as it does not run."""
    @tg.primitive
    def spread(x: Any) -> Any:
        return np.ones(3) * x

    tg.rrule(spread)(lambda x: (spread(x), rule))

    def f(x: Any) -> Any:
        parts = [spread(x * (1 + i) * 0.1) for i in range(12)]
        total = 0.0
        for part in parts:
            total = total + part.sum() * 2
        return total
    expected = tg.grad(f, 0.5)
    assert expected[1][1] == pytest.approx(46.8)
    rolled = roll(tg.trace(f, 0.5)[1])
    assert any(map(is_loop, rolled.ops))
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for run in (tg.flatgrad(rolled).play, tg.compile(tg.flatgrad(rolled)), step, step, step):
        same(run(0.5), expected, 1e-12)


def test_guards_of_a_loop_stay_where_no_pass_has_others() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for _ in range(5):
            total = total + (x if isinstance(x, float) else 2 * x)
        return total
    rolled = roll(tg.trace(f, np.float64(2.0))[1])
    assert any(map(is_loop, rolled.ops))
    for passes in ([], [dce]):
        assert tg.optimise(rolled, passes=passes).play(np.float64(3.0)) == 15.0
        with pytest.raises(tg.GuardError):
            tg.optimise(rolled, passes=passes).play(np.float32(3.0))
