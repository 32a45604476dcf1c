"""Compiled functions: paths, what they read besides their arguments, threads, nesting, memory, eviction."""

from __future__ import annotations

import array
import cProfile
import functools
import importlib
import itertools
import math
import random
import sys
import threading
import types
import warnings
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.harness.compare import alike, same
from tests.harness.on_torch import tensors
from tests.harness.sample import kept as copied
from tests.test_promises import POINTS, kept, random_program, weigh
from tests.threads import at_once

SCALE = 2.0
TABLE = np.arange(3.0)
CONFIG: dict[str, Any] = {"power": 2, "weights": [1.0, 2.0]}


def helper(x: Any) -> Any:
    return x * SCALE


class Settings:
    factor = 3.0

    def __init__(self) -> None:
        self.bias = 1.0

    def __call__(self, x: Any) -> Any:
        return x * self.factor + self.bias


def test_globals_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return (helper(x) ** CONFIG["power"] * TABLE).sum() * CONFIG["weights"][0]
    step, x = tg.value_and_grad(f, argnums=None), np.ones(3)

    def check(traces: int) -> None:
        same(step(x), tg.grad(f, x))
        same(step(x), tg.grad(f, x))
        assert step.stats.traces == traces
    check(1)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    check(2)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    check(2)  # the first tape fits again
    try:
        TABLE[1] = 7.0
        check(3)
    finally:
        TABLE[1] = 1.0
    check(3)
    monkeypatch.setitem(CONFIG, "power", 3)
    check(4)
    monkeypatch.setitem(CONFIG, "weights", [1.0, 2.0])
    check(4)  # equal, if not the same
    CONFIG["weights"][0] = 5.0
    check(5)
    monkeypatch.setitem(globals(), "helper", lambda x: x * 10.0)
    check(6)


def test_defaults_and_class_attributes_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings()
    step = tg.value_and_grad(settings, argnums=None)
    same(step(2.0), tg.grad(settings, 2.0))
    monkeypatch.setattr(Settings, "factor", 5.0)
    same(step(2.0), tg.grad(settings, 2.0))
    settings.bias = 4.0  # an input: no new trace
    same(step(2.0), tg.grad(settings, 2.0))
    assert step.stats.traces == 2

    def f(x: Any, k: float = 2.0) -> Any:
        return x * k
    step = tg.value_and_grad(f, argnums=None)
    assert step(3.0)[0] == 6.0
    f.__defaults__ = (5.0,)
    assert step(3.0)[0] == 15.0


NAMES, RECORDS = np.array(["sin"]), np.zeros(2, [("rate", float)])
ORDERED = {"a": 1.0, "b": 2.0}


def _reorder() -> None:
    ORDERED["a"] = ORDERED.pop("a")


@pytest.mark.parametrize(("thing", "read", "change"), [
    ({2}, sum, lambda s: s.add(3)),
    (bytearray(b"a"), lambda s: s[0], lambda s: s.extend(b"b") or s.pop(0)),
    (NAMES, lambda s: 1.0 if s[0] == "sin" else 2.0, lambda s: np.copyto(s, "cos")),
    (RECORDS, lambda s: s["rate"][0], lambda s: s["rate"].fill(3.0)),
    (np.array([None, {}], object), lambda s: len(s[1]), lambda s: s[1].update(a=1)),
    (array.array("d", [1.0]), lambda s: s[0], lambda s: s.append(s.pop() + 1)),
    (types.MappingProxyType(ORDERED), lambda s: next(iter(s.values())), lambda s: _reorder()),
    ({"a": 1.0, "b": 2.0}, lambda s: 3 * next(iter(s.values())) + sum(s.values()), lambda s: s.update(a=s.pop("a"))),
    (np.polynomial.Polynomial([1.0, 2.0]), lambda s: s.coef[0], lambda s: s.coef.fill(3.0)),
], ids=lambda value: type(value).__name__)
def test_what_changes_in_place_is_looked_at_again(thing: Any, read: Any, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "THING", thing)
    ways = [tg.compile(lambda x: x * float(read(THING))), tg.compile(lambda x: x * float(read(thing))), tg.compile(lambda x, given: x * float(read(given)))]
    calls: list[Any] = [lambda: ways[0](2.0), lambda: ways[1](2.0), lambda: ways[2](2.0, thing)]
    if type(thing) in (dict, types.MappingProxyType):  # its numbers are inputs
        ways = [tg.compile(lambda x: x * read(THING)), tg.compile(lambda x: x * read(thing)), tg.compile(lambda x, given: x * read(given))]
    for _ in range(2):
        for call in calls:
            assert [call() for _ in range(3)] == [2.0 * read(thing)] * 3
        assert [way.stats.hits for way in ways] in ([2, 2, 2], [4, 4, 4])
        change(thing)


THING: Any = None
function: Any = None


@pytest.mark.parametrize(("f", "name", "values"), [
    (lambda x: x * THING.rate, "THING", [types.ModuleType("one"), types.ModuleType("two")]),
    (lambda x: x + function(2.0), "function", [math.sin, math.cos]),
    (lambda x: x + function(2.0), "function", [np.sin, np.cos]),
    (lambda x: x + function(2.0), "function", [functools.partial(np.power, 2.0), functools.partial(np.power, 3.0)]),
    (lambda x: x * math.copysign(1.0, THING), "THING", [0.0, -0.0]),
    (lambda x: x * math.copysign(1.0, eval("THING")), "THING", [1.0, -1.0]),
    (lambda x: x * max(1.0, 2.0), "max", [None, min]),
], ids=["module", "builtin", "ufunc", "partial", "zero", "eval", "hidden"])
def test_names_are_looked_up_again(f: Any, name: str, values: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    step = tg.value_and_grad(f, argnums=None)
    for number, value in enumerate(values * 2):
        if isinstance(value, types.ModuleType):
            vars(value)["rate"] = 2.0 + number % 2
        if value is not None:
            monkeypatch.setitem(globals(), name, value)
        else:
            monkeypatch.delitem(globals(), name, raising=False)
        for _ in range(3):
            same(step(2.0), tg.grad(f, 2.0))
    assert step.stats.traces == 2


def test_what_stands_in_while_another_trace_runs_is_no_other_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "function", math.sin)
    monkeypatch.setitem(globals(), "THING", np.random.default_rng(0))
    inner = tg.compile(lambda x: function(x) + 0.0 * THING.random())
    for k in range(3):
        assert tg.grad(lambda x: x * inner(2.0), float(k)) == (k * math.sin(2.0), (None, math.sin(2.0)))
        assert inner(float(k)) == math.sin(k)
    assert inner.stats.traces == 2  # the second call compares, and draws: what it compiles draws no second time


def test_the_order_of_keywords_and_of_keys() -> None:
    def f(x: Any, **given: Any) -> Any:
        first, second = given.values()
        return x * (2 * first + second)

    def g(x: Any, given: Any) -> Any:
        return f(x, **given)
    by_keyword, by_dict = tg.value_and_grad(f, argnums=None), tg.value_and_grad(g, argnums=None)
    for given in ({"a": 1.0, "b": 3.0}, {"b": 3.0, "a": 1.0}):
        for _ in range(3):
            same(by_keyword(2.0, **given), tg.grad(f, 2.0, **given))
            found = by_dict(2.0, given)
            same(found, tg.grad(g, 2.0, given))
            assert list(found[1][2]) == list(given)


def test_keys_that_are_as_good_for_a_dict_are_told_apart() -> None:
    def f(given: Any) -> Any:
        (key, x), = given.items()
        return x * {bool: 2.0, int: 3.0, float: 5.0}[type(key)]
    step = tg.value_and_grad(f, argnums=None)
    for key in (1, True, 1.0, 1, True, 1.0, True, 1):
        value, (_, gradient) = step({key: 2.0})
        assert value == 2.0 * {bool: 2.0, int: 3.0, float: 5.0}[type(key)] and [*map(type, gradient)] == [type(key)]


def test_an_iterator_is_used_up_by_each_call() -> None:
    step, numbers = tg.value_and_grad(lambda x, it: x * next(it), argnums=None), itertools.count(1)
    assert [step(2.0, numbers)[0] for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]


def test_functions_of_the_same_code_are_one() -> None:
    def act(k: Any) -> Any:
        return lambda y, k=k: y * k
    step = tg.compile(lambda x, fn: fn(x))
    for _ in range(4):
        assert step(2.0, lambda y: y * y) == 4.0
    assert step.stats.traces == 1
    for k in (1, 1.0, True, 0.0, -0.0, np.ones(2)):
        for _ in range(3):
            same(step(-3, act(k)), -3 * k)
            assert np.signbit(step(-3, act(k))).all() == np.signbit(-3 * k).all()


def test_captured_variables_are_inputs() -> None:
    w = np.ones(2)

    def f(x: Any) -> Any:
        return (x * w).sum()
    step = tg.value_and_grad(f, argnums=None)
    for k in range(4):
        w = w + k
        same(step(np.arange(2.0)), tg.grad(f, np.arange(2.0)))
    assert step.stats.traces == 1
    w = np.ones((3, 1))
    same(step(np.arange(2.0)), tg.grad(f, np.arange(2.0)))
    assert step.stats.traces == 2


def test_kinds_of_arguments() -> None:
    def f(p: Any, mode: str = "a", k: Any = None) -> Any:
        y = p["x"] * (2.0 if mode == "a" else 3.0)
        return np.sum(y if k is None else y * k)
    step = tg.value_and_grad(f, argnums=None)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (({"x": 1.0},), {}), (({"x": np.ones(2)},), {}), (({"x": np.ones(2, np.float32)},), {}), (({"x": 1},), {}), (({"x": 1.0}, "b"), {}),
        (({"x": 1.0},), {"mode": "b"}), (({"x": 1.0}, "a", 2.0), {}), (({"x": np.ones((2, 1))},), {})]
    for _ in range(2):
        for args, kwargs in calls:
            same(step(*args, **kwargs), tg.grad(f, *args, **kwargs))
    assert step.stats.traces == len(calls) == step.stats.hits


def test_objects_and_shared_lists() -> None:
    def f(a: Any, b: Any) -> Any:
        return a.w * b[0][0] + b[1][0]
    step, row = tg.value_and_grad(f, argnums=None), [2.0]
    for args in ((SimpleNamespace(w=2.0), ([1.0], [3.0])), (SimpleNamespace(w=4.0), ([1.5], [3.0])), (SimpleNamespace(w=4.0), (row, row))):
        found, expected = step(*args), tg.grad(f, *args)
        assert found[0] == expected[0] and found[1][1].w == expected[1][1].w and found[1][2] == expected[1][2]
    assert step.stats.traces == 2


def test_results_are_the_callers() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y, x, np.exp(x)[1:], np.exp(x)
    fast = tg.compile(f)
    x, y = np.ones(4), np.arange(4.0)
    fast(x, y)
    first = fast(x, y)
    copies = [part.copy() for part in first]
    for part in fast(2 * x, 3 * y):
        part[:] = 9.0
    for part, copy in zip(first, copies):
        np.testing.assert_array_equal(part, copy)
    assert (x == 1).all() and not any(np.may_share_memory(a, b) for a in first for b in (x, y))
    step = tg.value_and_grad(lambda x, y: (x * y).sum(), argnums=None)
    _, (_, dx, dy) = step(x, y)
    _, (_, dx, dy) = step(x, y)
    dx[:] = dy[:] = 7.0
    assert (x == 1).all() and (y == np.arange(4.0)).all()


def test_inside_another_trace() -> None:
    step = tg.value_and_grad(lambda x: x ** 3, argnums=None)
    step(2.0)
    assert tg.grad(lambda x: step(x)[1][1] * 1.0, 2.0) == (12.0, (None, 12.0))
    assert tg.grad(lambda x: tg.compile(lambda y: x * y)(3.0), 2.0) == (6.0, (None, 3.0))
    outer = tg.value_and_grad(lambda x: tg.grad(lambda y: y ** 4, x)[1][1], argnums=None)
    assert outer(2.0)[0] == 32.0 and outer(2.0)[1][1] == 48.0


def test_threads() -> None:
    def f(x: Any) -> Any:
        y = np.tanh(x) * np.exp(-x)
        return np.sum(y * y) if y[0] > 0 else np.sum(y)
    step = tg.value_and_grad(f, argnums=None)
    points = [np.random.default_rng(k).normal(size=500) for k in range(16)]
    expected = [tg.grad(f, x) for x in points]
    wrong: list[Any] = []

    def work(k: int) -> None:
        for i in range(40):
            at = (k + i) % 16
            value, (_, dx) = step(points[at])
            if abs(value - expected[at][0]) > 1e-12 * abs(value) or not np.allclose(dx, expected[at][1][1], 1e-12, 1e-14):
                wrong.append(at)
    at_once(work, range(6))
    assert not wrong and step.stats.hits + step.stats.traces == 240


def test_called_by_a_function_that_it_calls() -> None:
    @tg.primitive
    def again(x: Any) -> Any:
        return x if x.sum() > 40 else step(x * 2)[0] * x

    @tg.rrule(again)
    def _(x: Any) -> Any:
        return again(x), lambda dy: (dy,)

    def f(x: Any) -> Any:
        y = np.exp(x * 0.01)
        return np.sum(again(x * 1.0) * y)
    step = tg.value_and_grad(f, argnums=None)
    for _ in range(3):
        same(step(np.ones(3)), tg.grad(f, np.ones(3)))


def test_the_least_recently_used_tape_leaves() -> None:
    def f(x: float, times: str) -> Any:
        return x ** int(times)
    step = tg.value_and_grad(f, argnums=None, max_tapes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for times in "123123":
            assert step(2.0, times)[0] == 2.0 ** int(times)
    step(2.0, "4")
    with pytest.warns(tg.RetraceWarning, match="this changes: the type, shape or static value"):
        step(2.0, "4")
    assert len(step.tapes) == 3 and step.stats.traces == 4
    step(2.0, "3")
    step(2.0, "2")
    assert step.stats.traces == 4
    step(2.0, "1")
    assert step.stats.traces == 5

    def g(x: float) -> Any:
        return x * 2.0 if x > LIMIT["now"] else x
    step = tg.value_and_grad(g, argnums=None, max_tapes=2)
    with pytest.warns(tg.RetraceWarning, match="most often because"):
        for limit in range(4):
            LIMIT["now"] = float(limit)
            for _ in range(2):
                same(step(2.5), tg.grad(g, 2.5))


LIMIT = {"now": 0.0}


def test_errors_are_the_programs() -> None:
    step = tg.value_and_grad(lambda x: np.linalg.cholesky(x).sum(), argnums=None)
    step(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        step(-np.eye(2))
    same(step(np.eye(2)), tg.grad(lambda x: np.linalg.cholesky(x).sum(), np.eye(2)))
    with pytest.raises(TypeError):
        step()
    with pytest.raises(tg.ArgumentError, match="backend"):
        tg.compile(lambda x: x, backend="abacus")


def test_numbers_beyond_pythons() -> None:
    def f(x: Any) -> Any:
        y = np.float64(1.0) * x
        return np.exp(y) / (y - 1.0) + np.sqrt(y)
    step = tg.value_and_grad(f, argnums=None)
    with np.errstate(all="ignore"):
        for x in (2.0, 1.0, 1000.0, -1.0, 0.0, np.nan, np.inf):
            same(step(np.float64(x)), tg.grad(f, np.float64(x)))
    assert step.stats.traces == 1


def test_a_tapes_function_refuses_what_does_not_fit() -> None:
    run = tg.compile(tg.trace(lambda x, y: x * y if x > 0 else y, 2.0, np.ones(3))[1])
    np.testing.assert_array_equal(run(3.0, np.arange(3.0)), 3.0 * np.arange(3.0))
    for args in ((-1.0, np.ones(3)), (2.0, np.ones(4)), (2, np.ones(3)), (2.0, np.ones(3, np.float32)), (2.0, [1.0, 1.0, 1.0])):
        with pytest.raises(tg.GuardError):
            run(*args)


BRANCHES = """if {a}.sum() > {s}: {a} = {a} * 0.5|if {a}.max() > 1: {a} = {a} - {b}.mean()
|while np.abs({a}).sum() > 2 + abs({s}): {a} = {a} * 0.7|for k in range(int(abs({s}) * 3)): {a} = {a} + k * {b}.sum() * 0.1
|{a} = np.where({a} > {s}, {a} ** 2, {b}.mean())|{a}[{a} > {s}] = {s}|{a}[{a} < 0] *= 0.1|{s} = {s} * 0.5 if {a}[0] > {b}[0] else {s} + 0.1
|{s} = {a}[{a} > 0.3].sum() * 0.2|{a} = np.maximum({a}, {b} * {s})|{a} = np.sort({a})|{s} = {a}[np.argmax({b})]|{a} = {a}[{b} > 0.2].sum() + {b}
|for v in {a}: {s} = {s} + v * 0.1 if v > 0.5 else {s} - 0.05|{a} = {a} / (1 + np.abs({a}).sum())|{a}[0], {a}[-1] = {a}[-1], {a}[0]
|{s} = min({s}, {a}.mean())|{b} = {a} * {s} if {a}.sum() * {b}.sum() > 0 else {b}"""


def branching_program(seed: int) -> str:
    rng = random.Random(seed)
    rows = BRANCHES.replace("\n", "").split("|")
    lines = [rng.choice(rows).format(a=rng.choice("xy"), b=rng.choice("xy"), s="s") for _ in range(6)]
    return "def f(x, y, s):\n" + "".join(f"    {line}\n" for line in lines) + "    return (x * x).sum() + (y * np.arange(1., 5.)).sum() + s\n"


def on_backends(f: Any, number: int, **how: Any) -> list[tuple[Any, Any]]:
    """Return a compiled gradient on NumPy, and one of every third program on torch, with what compares its results."""
    steps = [(tg.value_and_grad(f, argnums=None, **how), same)]
    return steps if number % 3 else [*steps, (tg.value_and_grad(f, argnums=None, backend="torch", **how), alike)]


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")  # some write into their arguments
@pytest.mark.parametrize("start", range(0, 60, 20))
def test_branching_programs_made_at_random(start: int) -> None:
    for seed in range(start, start + 20):
        namespace: dict[str, Any] = {"np": np}
        exec(branching_program(seed), namespace)
        f, rng = namespace["f"], np.random.default_rng(seed)
        steps = on_backends(f, seed, max_tapes=100)
        for _ in range(8):
            args = rng.normal(size=4), rng.normal(size=4), float(rng.normal())
            expected = tg.grad(f, *args)
            for step, agree in steps:
                for given in (args, tensors(args))[:1 if agree is same else 2]:
                    agree(step(*map(kept, given)), expected, 1e-9)
        for step, agree in steps:
            agree(step(*map(kept, args)), expected, 1e-9)
            assert step.stats.hits > 0


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")  # they write into their arguments
@pytest.mark.parametrize("start", range(0, 90, 45))
def test_writing_programs_made_at_random(start: int) -> None:
    ran = 0
    for seed in range(start, start + 45):
        namespace: dict[str, Any] = {"np": np, "math": math, "w": weigh}
        exec(random_program(seed), namespace)
        f, rng = namespace["f"], np.random.default_rng(seed)
        steps = on_backends(f, seed)
        with np.errstate(all="ignore"):
            for count in range(4):
                args = POINTS[seed % 4](rng)
                try:
                    expected = tg.grad(f, *map(kept, args))
                except (ValueError, TypeError, IndexError, tg.TapeError):
                    break
                if not np.isfinite(expected[0]) or abs(expected[0]) > 1e6:
                    break
                for step, agree in steps:
                    given = tuple(map(kept, args)) if agree is same else tensors(args) if count % 2 else tuple(map(copied, args))
                    before = [*map(kept, given)]
                    for _ in range(2):
                        agree(step(*given), expected, 1e-8)
                    same(given, before, 0.0, narrow=0.0)
                ran += 1
    assert ran > 54


def test_a_compiled_tape_keeps_no_large_arrays() -> None:
    step = tg.value_and_grad(lambda x: np.sum(np.exp(x) * x), argnums=None)
    x = np.linspace(0.0, 1.0, 1000)
    for _ in range(2):
        step(x)
    tape, = step.tapes
    assert not any(isinstance(op.val, np.ndarray) and op.val.nbytes > 256 for op in tape if op.kind == "call")
    assert "float64[1000]" in str(tape)
    same(tape.check().play(x), tg.grad(lambda x: np.sum(np.exp(x) * x), x))


def test_an_error_that_the_program_catches() -> None:
    def root(x: float) -> float:
        try:
            return math.sqrt(x) * x
        except ValueError:
            return x * x
    step = tg.value_and_grad(root, argnums=None)
    for x in (2.0, 3.0, -1.0, -2.0, 4.0):
        same(step(x), tg.grad(root, x))
    assert step.stats.traces == 2


def test_arguments_that_share_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        x[0] = 5.0
        return np.sum(x * y)
    step, tape = tg.value_and_grad(f, argnums=None), tg.trace(f, np.arange(3.0), np.ones(3))[1]
    for _ in range(3):
        same(step(np.arange(3.0), np.ones(3)), tg.grad(f, np.arange(3.0), np.ones(3)))
    z = np.arange(3.0)
    with pytest.raises(tg.MutationError, match="shares memory"):
        step(z, z)
    with pytest.raises(tg.GuardError, match="apart"):
        tape.play(z, z)
    assert "apart" in tape.to_python() and (z == np.arange(3.0)).all()


READERS = """
import importlib, operator, sys
from . import conf as renamed
def by_getattr(x): return x * getattr(renamed, "RATE")
def by_vars(x): return x * vars(renamed)["RATE"]
def by_dict(x): return x * renamed.__dict__["RATE"]
def by_sys_modules(x): return x * sys.modules["watched.conf"].RATE
def by_import_module(x): return x * importlib.import_module("watched.conf").RATE
def by_attrgetter(x): return x * operator.attrgetter("RATE")(renamed)
def by_relative_import(x):
    from .conf import RATE
    return x * RATE
def by_import_from_the_package(x):
    from . import conf
    return x * conf.RATE
def by_absolute_import(x):
    from watched.conf import RATE
    return x * RATE
def by_import_as(x):
    import watched.conf as c
    return x * c.RATE
"""


def test_what_is_read_by_a_name_in_a_string_or_imported_inside_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "watched"
    package.mkdir()
    for name, text in (("__init__", ""), ("conf", "RATE = 2.0\n"), ("readers", READERS)):
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    conf, readers = importlib.import_module("watched.conf"), importlib.import_module("watched.readers")
    functions = [fn for name, fn in vars(readers).items() if name.startswith("by_")]
    assert len(functions) == 10
    for f in functions:
        fast = tg.compile(f)
        for rate, traces in ((2.0, 1), (2.0, 1), (5.0, 2), (5.0, 2), (2.0, 2)):
            monkeypatch.setattr(conf, "RATE", rate)
            assert fast(1.0) == rate and fast.stats.traces == traces, f.__name__  # type: ignore[attr-defined]


def test_several_threads_compile_a_tape_once() -> None:
    step: Any = tg.value_and_grad(lambda x: (np.tanh(x) * x).sum(), argnums=None)
    finish, built = step.backend.finish, list[Any]()
    step.backend.finish = lambda tape: (built.append(tape), finish(tape))[1]
    x = np.linspace(0.0, 1.0, 50)
    expected = step(x)
    start, found = threading.Barrier(4), list[Any]()

    def work() -> None:
        start.wait()
        found.append(step(x))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1 and len(found) == 4 and step.stats.hits > 0 and step.stats.hits + step.stats.traces == 5
    for result in found:
        same(result, expected)


def test_a_call_that_raises_is_counted() -> None:
    def f(x: Any) -> Any:
        try:
            return np.linalg.inv(x).sum()
        except np.linalg.LinAlgError:
            return x.sum()
    fast, singular = tg.compile(f), np.ones((2, 2))
    assert [fast(np.eye(2)), fast(np.eye(2)), fast(singular), fast(singular), fast(np.eye(2))] == [2.0, 2.0, 4.0, 4.0, 2.0]
    assert fast.stats.traces == 2 and fast.stats.guards["whether it raises LinAlgError"] == 2


def test_a_profiler_that_runs_goes_on() -> None:
    profiler = cProfile.Profile()
    step = tg.value_and_grad(lambda x: np.tanh(x).sum(), argnums=None)
    x = np.array([0.5, 1.0])
    profiler.enable()
    try:
        found = [step(x) for _ in range(4)]
        math.cbrt(8.0) if hasattr(math, "cbrt") else math.sqrt(8.0)
    finally:
        profiler.disable()
    assert all(np.array_equal(dx, found[0][1][1]) for _, (_, dx) in found) and type(np.zeros(2) + 1.0) is np.ndarray
    assert any("math" in str(entry.code) for entry in profiler.getstats())


def test_an_error_of_a_gradient_inside_is_the_programs() -> None:
    def f(x: Any) -> Any:
        try:
            return tg.grad(lambda z: np.linalg.inv(z.reshape(1, 1)).sum(), x[:1])[0]
        except np.linalg.LinAlgError:
            return x.sum() * 2

    step = tg.compile(f, warmup=1)
    for k in (0, 0, 0, 1, 1, 0):
        assert step(np.ones(3) * k) == k
    assert step.stats.traces == 2  # type: ignore[attr-defined]


def test_objects_from_a_weak_table_a_count_that_stands_still_and_an_open_output_keep_no_path_from_being_compiled() -> None:
    class Interned:
        table, serial, out = weakref.WeakValueDictionary[int, Any](), itertools.count(), sys.__stderr__

        def __new__(cls, n: int) -> Any:
            if (found := cls.table.get(n)) is None:
                found = cls.table[n] = object.__new__(cls)
                found.n, found.held = n, (cls.serial, cls.out)
            return found

    step = tg.value_and_grad(lambda x: x * Interned(3).n)
    assert [step(x)[0] for x in (1.0, 2.0, 3.0, 4.0)] == [3.0, 6.0, 9.0, 12.0]
    assert step.stats.hits >= 2


def test_a_function_found_by_globals_is_compiled() -> None:
    space: dict[str, Any] = {}
    exec("def double(x): return 2 * x\ndef f(x, name): return globals()[name.lower()](x)", space)
    step = tg.value_and_grad(space["f"])
    assert [step(x, "Double")[0] for x in (1.0, 2.0, 3.0, 4.0)] == [2.0, 4.0, 6.0, 8.0]
    assert step.stats.hits >= 2


def test_what_no_code_reads_of_an_arguments_attributes_keeps_no_path_from_being_compiled() -> None:
    class Model:
        def __init__(self, rate: float) -> None:
            self.rate, self.parent, self.others = rate, weakref.ref(Model), weakref.WeakValueDictionary[str, Any]()

        def slope(self, x: Any) -> Any:
            return x * self.rate

    step = tg.value_and_grad(Model.slope, argnums=1)
    model = Model(2.0)
    assert [step(model, x)[0] for x in (1.0, 2.0, 3.0, 4.0)] == [2.0, 4.0, 6.0, 8.0]
    assert step.stats.hits >= 2
