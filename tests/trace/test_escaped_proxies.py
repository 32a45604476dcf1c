"""No traced value outlives its trace: in globals, caches, defaults, classes and objects stand plain ones."""

from __future__ import annotations

import collections
import contextvars
import functools
import gc
import math
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.rules.op import Traced
from tests.threads import at_once

LAZY: dict[str, Any] = {}
LOG: list[Any] = []
GRID: Any = None
SPACE = types.SimpleNamespace()
QUEUE: Any = collections.deque(maxlen=3)


class Table:
    grid: Any = None
    total: Any = 0.0


class Store:
    __slots__ = ("kept",)


STORE = Store()
MODULE = types.ModuleType("kept")


@functools.lru_cache
def table(n: int) -> Any:
    return np.linspace(0.0, 1.0, n)


@functools.cache
def pair(n: int) -> Any:
    x = np.linspace(0.0, 1.0, n)
    return x, [x[1:]]


def cached(x: Any) -> Any:
    return (x * table(3)).sum() + table(4).sum()


def paired(x: Any) -> Any:
    whole, (part,) = pair(3)
    return (x * whole).sum() + part.sum()


def lazy(x: Any) -> Any:
    if "a" not in LAZY:
        LAZY["a"] = np.arange(3.0) * 1.0
        LAZY["part"] = LAZY["a"][1:]
        LAZY["nest"] = ({"again": [LAZY["a"]]}, frozenset([1]))
    return (x * LAZY["a"]).sum() + LAZY["part"].sum()


def a_global(x: Any) -> Any:
    global GRID
    if GRID is None:
        GRID = np.linspace(0.0, 1.0, 4)
    return (GRID * x).sum()


def of_a_class(x: Any) -> Any:
    if Table.grid is None:
        Table.grid = np.ones(3), [np.zeros(2)]
    return (Table.grid[0] * x).sum()


def default(x: Any, memo: Any = {}, seen: Any = []) -> Any:  # noqa: B006
    memo.setdefault("k", np.full(2, 0.5))
    seen.append(len(seen))
    return (x * memo["k"]).sum()


def on_itself(x: Any) -> Any:
    if not hasattr(on_itself, "grid"):
        on_itself.grid = np.ones(3)  # type: ignore[attr-defined]
    return (on_itself.grid * x).sum()  # type: ignore[attr-defined]


def elsewhere(x: Any) -> Any:
    SPACE.grid, STORE.kept, MODULE.kept = np.ones(2), np.zeros(2), [np.ones(3)]  # type: ignore[attr-defined]
    return (SPACE.grid * x).sum() + STORE.kept.sum() * x


def logged(x: Any) -> Any:
    LOG.append(x * x)
    LOG.append((x, [x * 2.0]))
    QUEUE.append(x * 3.0)
    return x * x


def by_closure(x: Any) -> Any:
    def inner(n: int) -> Any:
        return x if n == 0 else x * inner(n - 1)
    LOG.append(inner)
    return inner(3)


def by_method(x: Any) -> Any:
    thing = types.SimpleNamespace(x=x)
    LOG.append(types.MethodType(lambda self: self.x, thing))
    LOG.append(functools.partial(lambda y: y, x))
    return x * x


def refused(x: Any) -> Any:
    LOG.append(x * x)
    return float(np.sin(x))


def raising(x: Any) -> Any:
    LOG.append([x * x, {"x": (x,)}])
    raise KeyError(x)


PROGRAMS = [cached, paired, lazy, a_global, of_a_class, default, on_itself, elsewhere, logged, by_closure, by_method, refused, raising]
MODES: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: tg.grad(f, 2.0), "trace": lambda f: tg.trace(f, 2.0), "jvp": lambda f: tg.jvp(f, (2.0,), (1.0,)),
    "hessian": lambda f: tg.hessian(f)(2.0), "in a gradient": lambda f: tg.grad(lambda x: tg.gradient(f, x)[0], 2.0),
    "compiled": lambda f: [step(2.0) for step in [tg.value_and_grad(f, argnums=None, warmup=1)] for _ in range(4)]}


def clear() -> None:
    global GRID
    GRID = None
    for each in (LAZY, LOG, QUEUE, vars(SPACE), on_itself.__dict__, default.__defaults__[0]):  # type: ignore[index]
        each.clear()
    table.cache_clear(), pair.cache_clear()
    Table.grid, Table.total = None, 0.0


def class_kept(x: Any) -> Any:
    class Made:
        v = x

    LOG.append(Made)
    return Made.v * x


VARIABLE: Any = contextvars.ContextVar("variable", default=1.0)


COPIED: list[Any] = []


def variable_set(x: Any) -> Any:
    VARIABLE.set((x * 2, [x]))
    COPIED[0].run(VARIABLE.set, x * 3)
    return VARIABLE.get()[0] * x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning", "ignore::tapegrad.EffectWarning")
def test_classes_and_context_variables_keep_plain_values(mode: str) -> None:
    clear()
    for _ in range(3):
        MODES[mode](class_kept)
        others = [float(i) for i in range(200)]  # where Python kept what a class held, something else stands now
        assert LOG[-1].v == 2.0 and len(others) == 200
    COPIED[:] = [contextvars.copy_context()]  # no older one: another test may have frozen that
    MODES[mode](variable_set)
    assert VARIABLE.get() == (4.0, [2.0]) and COPIED[0][VARIABLE] == 6.0
    clear()


def alive() -> list[Any]:
    gc.collect()
    return [x for x in gc.get_objects() if issubclass(type(x), Traced)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning", "ignore::tapegrad.EffectWarning")
def test_no_traced_value_is_left_and_the_plain_program_runs(f: Any, mode: str) -> None:
    clear()
    gc.freeze()  # what others keep, errors' frames among it, is neither walked nor counted
    try:
        MODES[mode](f)
    except (KeyError, tg.TapeError):
        assert f in (refused, raising)
    if mode != "compiled":  # whose tapes are kept
        assert not alive()
    if f not in (refused, raising):
        left = f(2.0)
        clear()
        assert left == f(2.0)
    clear()


def test_what_shares_memory_goes_on_sharing_it_and_no_tape_sees_it() -> None:
    clear()
    value, tape = tg.trace(lazy, 2.0)
    assert LAZY["nest"][0]["again"][0] is LAZY["a"] and LAZY["part"].base is LAZY["a"] and LAZY["nest"][1] == {1}
    LAZY["a"][:] = 7.0
    assert tape.play(2.0) == value == 9.0
    clear()


def differentiated(x: Any) -> Any:
    LAZY["metric"] = x * 2.0
    Table.total = Table.total + x
    return x * x


def test_a_differentiated_number_is_stored_as_its_value_and_one_warning_says_so() -> None:
    clear()
    with pytest.warns(tg.EffectWarning, match="outlives the call") as caught:
        for x in (1.0, 2.0, 3.0):
            tg.grad(differentiated, x)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert (LAZY["metric"], Table.total) == (6.0, 6.0) and type(LAZY["metric"]) is type(Table.total) is float
    clear()


def test_a_generator_keeps_what_it_holds() -> None:
    def f(x: Any) -> Any:
        LOG.append(y for y in [x, 2.0])
        return x * x
    clear()
    assert tg.grad(f, 2.0) == (4.0, (None, 4.0))
    clear()


def test_an_error_from_a_call_of_numpys_searches_nothing_but_what_the_trace_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_referrers", lambda *_: pytest.fail("all that Python holds was searched"))
    for f in (lambda x: (x * 2.0).diagonal(1), lambda x: np.einsum(x * 2.0, [0, 1], [1, 0]), lambda x: np.concatenate([(x, 1.0)])):
        with pytest.raises(ValueError):
            tg.trace(f, np.ones(3))


def test_tuples_that_another_thread_is_making_are_left_alone() -> None:
    failed, ended, interval = list[Exception](), threading.Event(), sys.getswitchinterval()

    def make() -> None:
        while not ended.is_set():
            try:
                tuple(i * 1.5 for i in range(5000))  # which Python makes larger, and so nobody else may hold
            except SystemError as err:
                failed.append(err)

    def f(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        LOG.append((x * x, (x,)))
        return x
    clear()
    other = threading.Thread(target=make)
    other.start()
    sys.setswitchinterval(1e-4)
    try:
        for _ in range(30):
            with pytest.raises(ValueError, match="negative"):
                tg.grad(f, -1.5)
            tg.grad(f, 1.5)
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        other.join()
    assert not failed and len(LOG) == 30 and set(LOG) == {(2.25, (1.5,))}
    clear()


def test_traces_of_several_threads_that_end_at_once_leave_each_other_alone() -> None:
    wrong = list[Any]()

    def f(x: Any, y: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        return math.log(x) * y

    def work(_: int) -> None:
        for i in range(150):
            x = (0.3, -1.5, 2.0)[i % 3]
            try:
                if tg.grad(f, x, 0.5)[0] != math.log(x) * 0.5:
                    wrong.append(x)
            except Exception as err:
                if str(err) != "negative":
                    wrong.append(err)
    at_once(work, range(4), interval=1e-5)
    assert not wrong


def test_classes_that_cannot_be_compared() -> None:
    class Compared(type):
        def __eq__(cls, other: object) -> bool:
            raise RuntimeError("no comparison")
        __hash__ = type.__hash__

    class Made(metaclass=Compared):  # type: ignore[metaclass]
        pass

    def f(x: Any) -> Any:
        kept = [Made(), Made(), x]
        LOG.append((x * x, kept))
        if x < 0:
            raise KeyError("mine")
        return x * x
    clear()
    assert tg.grad(f, 2.0)[0] == 4.0
    with pytest.raises(KeyError, match="mine"):
        tg.grad(f, -2.0)
    assert [(value, kept[2]) for value, kept in LOG] == [(4.0, 2.0), (4.0, -2.0)]
    clear()
