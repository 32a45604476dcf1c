"""Calls of compiled functions: which tape answers, without Python; functions replaced meanwhile, threads, re-entrance."""

from __future__ import annotations

import contextlib
import copy
import gc
import math
import os
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.compile.native.test_arguments import CASES

pytest.importorskip("llvmlite")


def rational(a: Any, b: Any) -> Any:
    return a / (a + b * b)


def branches(x: Any, k: Any = 0) -> Any:
    return x * 2.0 if x > 3.0 else x * x if x > 2.0 else -x if x > 1.0 else x / 2.0


compiled_rational = tg.compile(rational, mode="native")
rational_in_module, rational = rational, compiled_rational


@contextlib.contextmanager
def frames() -> Iterator[list[str]]:
    """Note the Python functions that run."""
    found: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename != contextlib.__file__ and frame.f_code.co_name != "frames":
            found.append(frame.f_code.co_name)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def ready(f: Callable[..., Any], *calls: tuple[Any, ...], make: Any = tg.compile, **options: Any) -> Any:
    options = {"argnums": None, **options} if make is tg.value_and_grad else options
    step = make(f, mode="native", warmup=1, **options)
    for args in calls * 3:
        step(*args)
    return step


INTRICATE = {"one list in two arguments", "long arrays"}


@pytest.mark.parametrize("name", sorted({*CASES} - INTRICATE))
@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad])
def test_a_call_runs_no_python(name: str, make: Any) -> None:
    f, given = CASES[name]
    options = {"argnums": None} if make is tg.value_and_grad else {}
    step = make(f, mode="native", warmup=1, **options)
    args, kwargs = given[0]
    for _ in range(4):
        step(*args, **kwargs)
    before = step.stats.hits
    with frames() as found:
        step(*args, **kwargs)
    if name == "one object in two places" or (make is tg.value_and_grad and name == "an object that refers to itself"):
        assert "_called" not in found  # Python takes these apart, or nests their gradient
    else:
        assert {*found} <= {"__new__", "<lambda>", "state"}  # of a named tuple, and whether torch casts
    assert step.stats.hits == before + 1


def test_each_path_answers_natively() -> None:
    step = ready(branches, (0.5,), (1.5,), (2.5,), (3.5,))
    stats = step.stats.hits, step.stats.traces
    with frames() as found:
        answers = [step(x) for x in (0.5, 1.5, 2.5, 3.5, 0.75, 3.75)]
    assert answers == [branches(x) for x in (0.5, 1.5, 2.5, 3.5, 0.75, 3.75)] and "_called" not in found
    assert (step.stats.hits, step.stats.traces) == (stats[0] + 6, stats[1])
    assert [tape.play(3.75) for tape in step.tapes[:1]] == [7.5]


def test_more_paths_than_are_tried_at_first() -> None:
    def f(x: float, k: int) -> float:
        return x * k if k % 2 else x / (k + 1)
    step = ready(f, *[(1.5, k) for k in range(8)])
    for _ in range(3):
        for k in range(8):
            assert step(2.5, k) == f(2.5, k)
    assert step.stats.traces <= 8 * 3


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
def test_a_tape_that_was_evicted_serves_no_longer() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.asarray(x) * 2.0)
    step = ready(f, (np.arange(1.0),), max_tapes=2)
    for n in range(1, 6):
        for _ in range(3):
            assert step(np.arange(float(n))) == f(np.arange(float(n)))
    entries = [entry for entries in step._entries.values() for entry in entries]
    assert len(step.tapes) <= 2 and {*map(id, step._tapes)} <= {id(entry.first) for entry in entries}
    traces = step.stats.traces
    step(np.arange(5.0))
    assert step.stats.traces == traces


def test_the_tape_that_is_used_stays() -> None:
    step = ready(lambda x: x * 2.0, (1.0,), (np.float64(1.0),), max_tapes=2)
    used = step.tapes[0]
    for _ in range(10):
        step(1.0)
    assert [tape for tape in step.tapes if tape.inputs[1].spec.type is float] == step.tapes[:1]
    with pytest.warns(tg.RetraceWarning):
        for _ in range(3):
            step(np.float32(1.0))
    traces = step.stats.traces
    step(2.0)
    assert step.stats.traces == traces and used


def test_calls_while_tapes_come_and_go() -> None:
    """Threads call one function; its tapes are evicted and compiled again meanwhile."""
    scale = [2.0]

    def f(x: Any) -> Any:
        return np.sum(x) * scale[0] + 1.0
    step, wrong = tg.compile(f, mode="native", warmup=1, max_tapes=3), []
    stop = threading.Event()

    def work(number: int) -> None:
        x = np.arange(1.0, 2.0 + number)
        expected = np.sum(x) * 2.0 + 1.0
        while not stop.is_set():
            if step(x) != expected or step(float(number)) != number * 2.0 + 1.0:
                wrong.append(number)

    def drop() -> None:
        while not stop.is_set():
            for entries in list(step._entries.values()):
                for entry in entries:
                    step._drop(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)] + [threading.Thread(target=drop)]
        before, _ = sys.getswitchinterval(), sys.setswitchinterval(1e-5)
        for thread in threads:
            thread.start()
        stop.wait(5.0)
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert not wrong
    for entries in list(step._entries.values()):
        for entry in entries:
            step._drop(entry)
    assert step._tapes == []


def test_a_call_inside_a_call() -> None:
    """A piece in Python, and a check in Python, may call the function, or have its tapes dropped."""
    def f(x: Any) -> Any:
        total = np.sum(np.sort(x)) * float(os.environ.get("TAPEGRAD_SCALE", "1.0"))
        for k in range(20):
            total = total + np.sin(x[k]) * total
        return total
    x = np.linspace(0.0, 1.0, 100)
    step, inner, depth = ready(f, (x,)), [], [0]
    expected = step(x)

    def again(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and depth[0] < 3:
            depth[0] += 1
            inner.append(step(x))
            if depth[0] == 3:
                for entries in list(step._entries.values()):
                    for entry in entries:
                        step._drop(entry)
                gc.collect()
    sys.setprofile(again)
    try:
        found = step(x)
    finally:
        sys.setprofile(None)
    assert found == expected and inner and inner == [expected] * len(inner)


def test_a_compiled_function_goes() -> None:
    step = ready(rational_in_module, (2.0, 3.0), make=tg.value_and_grad)
    call, gone = type(step).__call__, weakref.ref(step)
    assert call(2.0, 3.0) == step(2.0, 3.0)
    del step, call
    gc.collect()
    assert gone() is None


def test_a_call_leaks_nothing() -> None:
    step = ready(branches, (0.5,), (2.5,))
    native = ready(lambda x: np.sum(np.sort(x) * 2.0) / x[0], (np.arange(1.0, 4.0),))
    with np.errstate(all="ignore"):
        def spend(times: int) -> tuple[int, list[int]]:
            for _ in range(times):
                step(0.5), step(2.5), step(2.75)
                native(np.arange(1.0, 4.0))
                with contextlib.suppress(TypeError):
                    step()
            gc.collect()
            return sys.getallocatedblocks(), [sys.getrefcount(x) for x in (step, None, float, *step._tapes)]
        spend(1000)
        before, after = spend(100), spend(5000)
    assert abs(after[0] - before[0]) < 200
    assert all(abs(x - y) < 50 for x, y in zip(before[1], after[1]))


class Shape:
    def __init__(self, k: float) -> None:
        self.k = k

    @tg.compile
    def area(self, x: Any) -> Any:
        return self.k * x


Shape.area = tg.compile(Shape.area.__wrapped__, mode="native")  # type: ignore[method-assign]


def test_it_is_a_function_like_others() -> None:
    assert pickle.loads(pickle.dumps(compiled_rational)) is compiled_rational is copy.copy(compiled_rational)
    shape = Shape(2.0)
    for x in (1.0, 2.0, 3.0, 4.0):
        assert shape.area(x) == 2.0 * x and Shape.area(shape, x) == 2.0 * x
    shape.k = 3.0
    assert shape.area(2.0) == 6.0
    assert "compiled area" in repr(Shape.area)
    with pytest.raises(TypeError, match="argument"):
        compiled_rational(1.0)


def test_inside_a_trace() -> None:
    step = ready(lambda x, k: x * x * k, (2.0, 3.0))
    outer = ready(lambda x: step(x, 3.0) + step(5.0, 7.0), (2.0,), make=tg.value_and_grad)
    for x in (1.0, 2.0, 3.0):
        assert outer(x) == (3.0 * x * x + 175.0, (None, 6.0 * x))
        assert tg.grad(lambda x: step(x, 3.0), x) == (3.0 * x * x, (None, 6.0 * x))
        assert tg.jvp(lambda x: step(x, 3.0), (x,), (1.0,)) == (3.0 * x * x, 6.0 * x)


def test_settings_that_tapes_are_kept_apart_by(monkeypatch: Any) -> None:
    """Inside of what a library computes by, another tape serves."""
    from tapegrad.trace.guards import SURROUNDINGS, UNLIKE, add_surroundings
    step, state = ready(lambda x: x * 2.0, (2.0,)), [None]
    add_surroundings(around := lambda: state[0])
    try:
        before = step.stats.traces
        assert step(3.0) == 6.0 and step.stats.traces == before
        state[0] = "half"  # type: ignore[call-overload]
        assert step(3.0) == 6.0 and step.stats.traces == before + 1
    finally:
        SURROUNDINGS.remove(around)
        UNLIKE.remove(around)


def test_a_value_that_nobody_needs_and_numpy_warns_of() -> None:
    def f(x: Any) -> Any:
        np.log(x)
        return x * 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = ready(f, (2.0,))
        with frames() as found:
            assert step(3.0) == 6.0
        assert "_called" not in found and "is_calm" in found
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        step(0.0)
    with np.errstate(divide="ignore"):
        assert step(0.0) == 0.0


@pytest.mark.parametrize("mode", ["warn", "ignore"])
@pytest.mark.parametrize("f", [lambda x: np.array([x, 1.0]) / np.array([1.0, 0.0]),
                               lambda x: np.array([x, 0.0]) * np.inf,
                               lambda x: x * np.log(np.array([0.0, 1.0]))[1]])
def test_constants_of_which_numpy_warns(f: Any, mode: Any) -> None:
    with np.errstate(all=mode), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = ready(f, (2.0,))
        assert np.array_equal(step(3.0), f(3.0), equal_nan=True)
    with np.errstate(divide="raise", invalid="raise"), pytest.raises(FloatingPointError):
        step(3.0)
    with warnings.catch_warnings(), pytest.raises(RuntimeWarning):
        warnings.simplefilter("error")
        step(3.0)


def tried(x: float) -> float:
    try:
        math.sqrt(x - 0.1)
    except ValueError:
        return x
    return 2 * x


def many(x: float) -> float:
    for i in range(100):
        math.log(x - 0.001 * i)
    return 2 * x


@pytest.mark.parametrize("f", [tried, many, lambda x: (1.0 / (x - 0.05), 2 * x)[1], lambda x: (math.asin(2 * x), 2 * x)[1], lambda x: (math.exp(x * 800), 2 * x)[1]])
@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad])
def test_a_call_whose_value_nobody_uses_may_raise(f: Any, make: Any) -> None:
    def told(f: Any, x: float) -> Any:
        try:
            return f(x)
        except (ValueError, ArithmeticError) as err:
            return type(err)
    step = make(f, warmup=1)
    for x in (0.5, 0.4, 0.3, 0.05, 0.45, 0.9, 0.05):
        found, wanted = told(step, x), told(f, x)
        assert (found[0] if make is tg.value_and_grad and isinstance(found, tuple) else found) == wanted
