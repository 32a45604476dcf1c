"""Machine code: every family of ops against the trace, numbers, loops, guards, errors, warnings, references, threads."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.native import layouts, machine
from tapegrad.testing import contract
from tests.cases import DISTINCT
from tests.cases.case import Case
from tests.cases.over import over
from tests.harness.compare import same
from tests.harness.sample import differentiable

pytest.importorskip("llvmlite")


def native(f: Callable[..., Any], argnums: Any = None, **options: Any) -> Any:
    return tg.value_and_grad(f, argnums, mode="native", warmup=1, **options)


def code(step: Any) -> Any:
    """Return the machine code that serves a compiled function."""
    (entry,) = next(iter(step._entries.values()))
    return entry.run


def in_python(run: Any) -> int:
    """Return how many pieces of a tape stay in Python."""
    return int(run.ir.count("@tapegrad_invoke(") - 1)  # and its declaration


def bits(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(bits, x))
    return None if x is None else (type(x), np.asarray(x).dtype, np.shape(x), np.asarray(x).tobytes())


SAMPLED = [pytest.param(case, id=case.name) for case in DISTINCT[5::11] if case.samples and "draw" not in case.name and "random" not in case.name]


@over(SAMPLED)
def test_every_family_of_ops(case: Case) -> None:
    args = case.samples[0]
    if differentiable(case, args):
        def f(*xs: Any, fn: Any = case.fn) -> Any:
            return contract(fn(*xs))
        step, expected = native(f), tg.grad(f, *args)
        for _ in range(3):
            same(step(*args), expected)
    else:
        fast, value = tg.compile(case.fn, mode="native", warmup=1), tg.trace(case.fn, *args)[0]
        for _ in range(3):
            same(fast(*args), value)


# -- numbers

@pytest.mark.parametrize("mode", ["numpy", "native"])
def test_powers_of_integers_have_no_end(mode: str) -> None:
    step = tg.value_and_grad(lambda a, b: a ** b, argnums=None, mode=mode, warmup=1)
    for args in [(2, 64), (2, 64), (3, 40), (2, 63), (2, 3), (5, 2)]:
        same(step(*args), tg.grad(lambda a, b: a ** b, *args), 1e-14)
        assert step(*args)[1][1] == pytest.approx(args[1] * float(args[0]) ** (args[1] - 1), rel=1e-14)


def rational(a: Any, b: Any) -> Any:
    return a / (a + b * b)


def logistic(x: Any, n: int) -> Any:
    for _ in range(n):
        x = 3.7 * x * (1.0 - x) + 0.01 * math.sin(x)
    return x


def oscillator(x: Any, v: Any, k: Any, dt: float, n: int) -> Any:
    for i in range(n):
        a = -k * x - 0.1 * v * i
        x, v = x + dt * v, v + dt * a
    return x * x + v * v


def switched(x: Any, n: int) -> Any:
    total = 0.0
    for i in range(n):
        total = total + (x if i % 3 == 0 else math.exp(-x) / (1.0 + i))
    return total


def mixed(x: Any, y: Any) -> Any:
    return np.where(x > y, np.hypot(x, y), np.maximum(x, -y)) + abs(x) ** 3 + x ** y + math.atan2(y, x) - np.sqrt(x)


NUMBERS: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = [
    (rational, [(2.0, 3.0), (-1.5, 0.25), (1e300, 1e300)]),
    (rational, [(np.float64(2.0), 3.0), (np.float64(0.1), 3.0)]),
    (logistic, [(0.3, 100), (0.7, 100)]),
    (oscillator, [(1.0, 0.0, 2.0, 0.01, 200), (0.5, 1.0, np.float64(2.0), 0.01, 200)][:1]),
    (switched, [(0.5, 90), (1.5, 90)]),
    (mixed, [(2.0, 0.5), (2.5, 0.75)]),
    (lambda x, n: x * n + n * n - (n > 2), [(2.0, 3), (2.0, 5)]),
    (lambda x: math.log(x) if x > 1 else x * x, [(2.0,), (0.5,), (3.0,)]),
    (lambda x: (x * 2.0, {"a": x, "b": [x * x]})[0], [(2.0,), (3.0,)]),
]


@pytest.mark.quick
@pytest.mark.parametrize("f, calls", NUMBERS)
def test_numbers_are_those_of_the_trace(f: Any, calls: list[tuple[Any, ...]]) -> None:
    """To the last bit: arithmetic is not contracted, and functions are libm's, as Python's are."""
    step = native(f)
    for _ in range(3):
        for args in calls:
            assert bits(step(*args)[0]) == bits(tg.compile(f, mode="numpy", warmup=1)(*args))
            same(step(*args), tg.grad(f, *args), 1e-12)
    assert step.stats.hits > len(calls)


def test_loops_of_numbers_are_native_code() -> None:
    for f, args in ((logistic, (0.3, 2000)), (oscillator, (1.0, 0.0, 2.0, 0.01, 1000)), (switched, (0.5, 3000))):
        step, plain = native(f), tg.value_and_grad(f, argnums=None, mode="numpy", warmup=1)
        for _ in range(3):
            found, expected = step(*args), plain(*args)
        assert bits(found) == bits(expected)
        assert in_python(code(step)) == 0 and "%loop" in code(step).ir


def test_nested_arguments_and_results() -> None:
    class Model:
        def __init__(self) -> None:
            self.w, self.b = 2.0, np.array([1.0, 2.0])

        def loss(self, x: dict[str, Any], *, scale: float = 1.0) -> Any:
            return scale * np.sum((x["a"] * self.w - self.b) ** 2) + x["c"][0]

        def __repr__(self) -> str:
            return f"Model({self.w}, {self.b})"
    model = Model()
    step, x = native(model.loss), {"a": 3.0, "c": [1.5, (2.0, 3.0)]}
    for scale in (1.0, 2.0, 3.0):
        found, expected = step(x, scale=scale), tg.grad(model.loss, x, scale=scale)
        assert str(found) == str(expected)
    captured = 2.0
    step = native(lambda x: x * captured)
    for x in (1.0, 2.0, 3.0):
        same(step(x), tg.grad(lambda x: x * captured, x))
    captured = 5.0
    same(step(4.0), tg.grad(lambda x: x * captured, 4.0))


# -- what leaves for Python


def test_guards_that_do_not_hold() -> None:
    def f(x: float, n: int) -> Any:
        if x > 1.0:
            x = x * n
        return math.sin(x) if n < 4 else x
    step = native(f)
    for args in [(0.5, 3), (2.0, 3), (0.5, 5), (2.0, 5), (0.5, 3), (2.0, 3), (2.0, 10 ** 30), (math.nan, 3), (-0.0, 3)] * 2:
        same(step(*args), tg.grad(f, *args))
    for other in [(np.float64(0.5), 3), (0.5, 3.0), (True, 3), (1, 3)]:
        same(step(*other), tg.grad(f, *other))
    with pytest.raises(TypeError):
        step(1.0)
    tape = tg.trace(f, 0.5, 3)[1]
    fast = tg.compile(tape, mode="native")
    assert fast(0.25, 3) == math.sin(0.25)
    with pytest.raises(tg.GuardError, match="bool"):
        fast(2.0, 3)


def test_a_guard_that_stays_in_python_is_asked() -> None:
    def f(x: Any) -> Any:
        return x * round(x) + x * int(x) + float(np.sort(np.array([x, 0.25]))[0] > 0.0)
    step, fast = native(f), tg.compile(tg.trace(lambda x: f(x) + 0.0 * len("x" * round(x)), 2.25)[1], mode="native")
    for x in (2.25, 2.25, 2.375, 2.75, 3.25, 2.5, -2.25, 2.25):
        same(step(x), tg.grad(f, x))
    assert fast(2.375) == f(2.375)
    for x in (2.75, 3.25, math.nan, math.inf):
        with pytest.raises(tg.TapeError):
            fast(x)


def raised(f: Callable[..., Any], *args: Any) -> Any:
    """Return what a call gives: its bits, or its error, and what NumPy warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = bits(f(*args))
        except Exception as err:
            found = type(err), str(err)
    return found, {(w.category, str(w.message), w.lineno) for w in told}


ERRORS: list[tuple[Callable[..., Any], tuple[Any, ...], list[tuple[Any, ...]]]] = [
    (lambda a, b: a / b, (1.0, 2.0), [(1.0, 0.0), (math.inf, 0.0), (math.nan, 0.0), (0.0, 0.0), (math.inf, math.inf), (1e308, 1e-10)]),
    (lambda a, b: a ** b, (2.0, 0.5), [(0.0, -1.0), (0.0, -math.inf), (-8.0, 0.5), (1e200, 5.0), (0.0, 0.0), (math.inf, -1.0)]),
    (lambda a: math.exp(a), (1.0,), [(1000.0,), (-1000.0,), (math.nan,), (math.inf,), (-math.inf,)]),
    (lambda a: math.log(a) + math.sqrt(a), (1.0,), [(0.0,), (-0.0,), (-1.0,), (math.inf,), (5e-324,)]),
    (lambda a: math.sin(a), (1.0,), [(math.inf,), (math.nan,), (-0.0,)]),
    (lambda a: math.acos(a) * math.atanh(a), (0.5,), [(1.0,), (2.0,), (-1.0,)]),
    (lambda a: np.log(a) / a, (1.0,), [(0.0,), (-1.0,), (math.nan,), (math.inf,)]),
    (lambda a: np.exp(a) * a, (1.0,), [(1000.0,), (-1000.0,)]),
    (lambda a: np.exp(a) * a, (np.float64(1.0),), [(np.float64(1000.0),), (np.float64(-1000.0),), (np.float64(math.inf),)]),
    (lambda n, x: x * n * n, (3, 2.0), [(2 ** 40, 2.0), (-(2 ** 63), 1.0), (2 ** 70, 0.5)]),
]


@pytest.mark.parametrize("f, first, calls", ERRORS)
def test_errors_and_warnings_are_the_programs(f: Any, first: tuple[Any, ...], calls: list[tuple[Any, ...]]) -> None:
    step, fast = native(f), tg.compile(f, mode="native", warmup=1)
    plain, slow = tg.value_and_grad(f, argnums=None, mode="numpy", warmup=1), tg.compile(f, mode="numpy", warmup=1)
    for _ in range(3):
        for each in (step, fast, plain, slow):
            each(*first)
    for args in calls:
        assert raised(fast, *args) == raised(slow, *args)  # what they warn of is not always all that the program does
        assert raised(fast, *args)[0] == raised(f, *args)[0]
        assert raised(step, *args) == raised(plain, *args)


def test_settings_of_numpy_hold() -> None:
    step = native(lambda a: np.exp(a) * 2.0)
    for _ in range(3):
        step(np.float64(1.0))
    with np.errstate(under="raise"), pytest.raises(FloatingPointError):
        step(np.float64(-800.0))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        step(np.float64(800.0))
    with np.errstate(over="ignore"):
        assert step(np.float64(800.0))[0] == math.inf
    assert step(np.float64(-800.0))[0] == 0.0


def test_interrupts_pass() -> None:
    def stop(x: Any) -> Any:
        raise KeyboardInterrupt
    x = np.arange(5.0)
    run = tg.compile(tg.trace(lambda x: np.sort(x * 2.0 + 1.0) * 3.0, x)[1], mode="native")
    assert bits(run(x)) == bits((x * 2.0 + 1.0) * 3.0) and in_python(run) > 0
    piece, *_ = [y for y in type(run).__call__.__self__ if getattr(y, "__name__", "") == "segment"]
    piece.__code__ = stop.__code__
    with pytest.raises(KeyboardInterrupt):
        run(x)


def test_bits_of_numbers_pass() -> None:
    payload = np.frombuffer(np.uint64(0x7FF8000000001234).tobytes(), np.float64)[0]
    fast = tg.compile(lambda x: (x, -x, abs(x)), mode="native", warmup=1)
    for x in (1.0, 2.0, -0.0, 0.0, 5e-324, -math.inf, float(payload)):
        assert bits(fast(x)) == bits((x, -x, abs(x)))


# -- memory, threads


def test_nothing_is_leaked() -> None:
    def f(x: Any, a: Any) -> Any:
        return np.sum(np.sort(a) * x) / x + logistic(1.0 / (1.0 + x * x), 30)
    step, a = native(f), np.linspace(0.1, 1.0, 50)
    calls = [(2.0, a), (0.0, a), (2.0, a[::-1]), (2.0, a.astype(np.float32))]

    def spend(times: int) -> None:
        for args in calls:
            for _ in range(times if args[0] else times // 50 + 1):
                with contextlib.suppress(Exception):
                    run(*args)
    with np.errstate(all="ignore"):
        for _ in range(3):
            step(2.0, a)
        run = code(step)
        spend(100)
        gc.collect()
        before = sys.getallocatedblocks(), [sys.getrefcount(x) for x in (None, np.ndarray, a.dtype, a, float, True)]
        spend(3000)
        gc.collect()
        after = sys.getallocatedblocks(), [sys.getrefcount(x) for x in (None, np.ndarray, a.dtype, a, float, True)]
    assert abs(after[0] - before[0]) < 300
    assert all(abs(x - y) < 100 for x, y in zip(before[1], after[1]))


def test_code_goes_with_its_function() -> None:
    fast = tg.compile(tg.trace(lambda x: x * 2.0, 1.0)[1], mode="native")
    assert fast(3.0) == 6.0 and "fmul" in fast.ir and "def compiled" in fast.source and len(fast.tape) == 4
    engine = sys.getrefcount(fast.compiled.code)
    call = type(fast).__call__
    del fast
    gc.collect()
    assert call(4.0) == 8.0 and engine


def test_threads_share_no_memory() -> None:
    step, wrong = native(oscillator), []
    args = [(1.0 + i, 0.5, 2.0, 0.01, 300) for i in range(4)]
    expected = [bits(tg.value_and_grad(oscillator, argnums=None, mode="numpy", warmup=1)(*each)[0]) for each in args]
    for each in args:
        step(*each)

    def work(number: int) -> None:
        for _ in range(100):
            if bits(step(*args[number])[0]) != expected[number]:
                wrong.append(number)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- where there is no native code


def test_what_is_missing_is_said(monkeypatch: Any) -> None:
    machine.machine.cache_clear()
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(tg.ArgumentError, match="llvmlite") as err:
        tg.compile(rational, mode="native")
    assert "pip install llvmlite" in str(err.value)
    monkeypatch.undo()
    monkeypatch.setattr(machine, "fault", lambda: "a float not at the expected offset")
    with pytest.raises(tg.ArgumentError, match="a float not at the expected offset"):
        tg.compile(rational, mode="native")
    monkeypatch.undo()
    machine.machine.cache_clear()
    assert layouts.fault() == ""


def test_versions_that_are_not_known_have_no_machine_code(monkeypatch: Any) -> None:
    assert machine.obstacle() == ""
    for where, value, told in ((layouts, ((3, 9),), "cpython 3"), (machine, frozenset(), "no native code")):
        monkeypatch.setattr(where, "VERSIONS" if where is layouts else "MACHINES", value)
        assert told in machine.obstacle()
        monkeypatch.undo()
    monkeypatch.setattr(machine, "CALLED", ("PyObject_Vectorcall", "PyNone_New"))
    assert machine.obstacle() == "this Python does not export PyNone_New"
    machine.machine.cache_clear()
    with pytest.raises(tg.ArgumentError, match="PyNone_New"):
        tg.compile(rational, mode="native")
    monkeypatch.undo()
    machine.machine.cache_clear()


@pytest.mark.parametrize("name", [name for name in layouts.Layout._fields if name not in ("ndim", *["managed"] * (sys.version_info < (3, 11)))])
def test_another_layout_is_noticed(name: str) -> None:
    assert "not at the expected offset" in layouts.fault(layouts.LAYOUT._replace(**{name: getattr(layouts.LAYOUT, name) + 8}))


# -- small arrays


def slope(u: Any, p: Any) -> Any:
    x, y, z = u
    return np.array([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])


def lorenz(u: Any, p: Any, dt: float, steps: int) -> Any:
    for _ in range(steps):
        a = slope(u, p)
        b = slope(u + 0.5 * dt * a, p)
        u = u + dt * (a + b) / 2
    return np.sum(u * u)


def written(u: Any, n: int) -> Any:
    state = np.zeros(4)
    for i in range(n):
        state[i % 4] = np.tanh(u[i % len(u)] + state[(i + 1) % 4])
        state[1:3] *= 0.5
        state[::-1] += 0.125 * u[0]
    return state @ state + np.max(state) * np.min(u)


def network(w: Any, x: Any, n: int) -> Any:
    h = np.zeros((2, 3))
    for i in range(n):
        h = np.tanh(h @ w + x[i] - np.mean(h, axis=0)) * np.where(h > 0.0, 1.5, 0.5)
    return np.sum(np.concatenate([h.ravel(), h.T[0], np.stack([h[0], h[1]]).reshape(-1)[::2]]) ** 2)


RNG = np.random.default_rng(0)
ARRAYS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lorenz, (np.array([1.0, 2.0, 20.0]), np.array([10.0, 28.0, 8 / 3]), 0.01, 300)),
    (written, (np.linspace(0.1, 0.5, 5), 400)),
    (network, (RNG.normal(size=(3, 3)), RNG.normal(size=(200, 3)), 200)),
    (lambda a, b: np.sum(np.exp(a[:, None] * b) / (1.0 + np.abs(b))), (RNG.normal(size=4), RNG.normal(size=(4, 5)))),
    (lambda a: np.dot(a, a) * a[1] + a[-1:].sum() + np.flip(a)[0] * np.tile(a, 2)[3], (RNG.normal(size=3),)),
    (lambda a: a * 2.0, (np.array(3.0),)),
    (lambda a: np.sum(np.pad(a, 2, constant_values=5.0) * np.pad(np.exp(a * 2.0 - 1.0) + np.sin(a) / (a * a + 1.0), (1, 3))), (RNG.normal(size=3),)),
    (lambda a: np.sum(a) + np.sum(a * 2.0) + a @ a + np.sum(a.reshape(0, 1) @ np.ones((1, 2))), (np.zeros(0),)),
    (lambda a: np.sum(np.sqrt(a) * a.T), (np.asfortranarray(RNG.uniform(1, 2, (4, 4))),)),
]


@pytest.mark.parametrize("f, args", ARRAYS)
def test_small_arrays(f: Any, args: tuple[Any, ...]) -> None:
    step, expected = native(f, argnums=0), tg.value_and_grad(f, argnums=0, mode="numpy", warmup=1)
    for _ in range(3):
        same(step(*args), expected(*args), 1e-12)
    run = code(step)
    assert "%" in run.ir
    for change in (lambda x: x[..., ::-1], lambda x: np.asfortranarray(x), lambda x: np.repeat(x, 2, -1)[..., ::2] if x.ndim else x):
        others = tuple(change(x) if isinstance(x, np.ndarray) and x.ndim else x for x in args)
        for x in others:
            if isinstance(x, np.ndarray):
                x.flags.writeable = False
        same(run(*others), expected(*others), 1e-12)
    if args[0].ndim:
        unaligned = np.frombuffer(b"x" + args[0].tobytes() + b"y" * 7, np.uint8)[1:1 + args[0].nbytes].view(np.float64).reshape(args[0].shape)
        same(run(unaligned, *args[1:]), expected(args[0] if args[0].flags.c_contiguous else unaligned, *args[1:]), 1e-12)
    big = args[0].astype(">f8")
    same(step(big, *args[1:])[0], expected(args[0], *args[1:])[0], 1e-12)


def test_loops_of_small_arrays_are_native_code() -> None:
    for f, args in ARRAYS[:2]:
        step = native(f, argnums=0)
        for _ in range(3):
            step(*args)
        assert code(step).ir.count("phi i64") == 2  # there, and back


def test_indices_that_are_computed_stay_inside() -> None:
    def f(x: Any, k: int) -> Any:
        return x[k] * 2.0 + np.sin(x[k])
    tape = tg.trace(lambda x, k: f(x, k), np.arange(100.0), 3)[1]
    fast = tg.compile(tape, mode="native")
    x = np.arange(100.0)
    assert fast(x, 3) == f(x, 3)
    for k in (99, -1, -100, 100, -101, 2 ** 62):
        assert raised(fast, x, k)[0] == raised(tg.compile(tape, mode="numpy"), x, k)[0]


@pytest.mark.parametrize("n", [1, 3, 12, 13])
def test_few_numbers_at_computed_places_are_native_code(n: int) -> None:
    weights = np.arange(1.0, n + 1)

    def f(x: Any, places: Any) -> Any:
        return np.sum(np.exp(x[places]) * weights)
    step = native(f, argnums=0)
    x, places = np.linspace(0.0, 1.0, n), np.arange(n) * 3 % n - n // 2  # twice the same, and from the end
    for _ in range(4):
        _, dx = step(x, places)
    assert in_python(code(step)) == 0
    np.testing.assert_allclose(dx, tg.grad(f, x, places)[1][1], 1e-13)
    for wrong in (n, -n - 1):
        with pytest.raises(IndexError):
            step(x, np.full(n, wrong))
