"""Arguments taken apart, and results nested, by machine code: as the straight-line code does, for arguments that fit and
for those that do not.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tg

pytest.importorskip("llvmlite")


class Point(NamedTuple):
    x: Any
    y: Any


class Kind(Enum):
    ONE = 1
    TWO = 2


@dataclass
class Line:
    a: Any
    b: Any
    label: str = "line"


class Other(Line):
    pass


class Model:
    def __init__(self, w: Any, b: Any) -> None:
        self.w, self.b, self.kind, self.parts = w, b, "model", [w, {"b": b}]

    def loss(self, x: Any, *, scale: Any = 1.0) -> Any:
        return (self.w * x + np.sum(self.b)) * scale + self.parts[1]["b"].sum()

    def __call__(self, x: Any) -> Any:
        return self.loss(x)


class Node:
    def __init__(self, value: Any) -> None:
        self.value, self.next = value, self


def closure(k: Any) -> Any:
    kept = [k, np.array([1.0, 2.0])]
    return lambda x: x * k + kept[0] * np.sum(kept[1])


def twice(f: Callable[[Any], Any], x: Any) -> Any:
    return f(f(x))


def renamed(x: Line, **values: Any) -> Line:
    for key, value in values.items():
        setattr(x, key, value)
    return x


A = np.array([1.0, 2.0, 3.0])
LONG = np.linspace(0.0, 1.0, 100)
LIST = [1.0, 2.0]
Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


def calls(*args: Any) -> Calls:
    return [(each if type(each) is tuple else (each,), {}) for each in args]


CASES: dict[str, tuple[Callable[..., Any], Calls]] = {
    # the first call is the one that is recorded
    "tuples": (lambda t: t[0] * t[1][0], calls(((2.0, (3.0,)),), ((2.5, (3,)),), ((2.5, (3.0, 1.0)),), ([2.5, (3.0,)],), ((2.5, [3.0]),))),
    "lists": (lambda t: t[0] * t[1][0], calls(([2.0, [3.0]],), ([2.5, [3.5]],), ([2.5],), ([2.5, [np.float64(3.0)]],), ([2.0, [3.0], 1.0],), ([2.0, []],))),
    "empty lists": (lambda x, t: x * 2.0 + len(t), calls((2.0, []), (3.0, []), (3.0, [1.0]), (3.0, ()), (3.0, {}))),
    "dicts": (lambda t: t["a"] * t["b"][0] + 2.0, calls({"a": 2.0, "b": (3.0,)}, {"a": 2.5, "".join(["", "b"]): (3.5,)}, {"b": (3.0,), "a": 2.0}, {"a": 2.0, "c": (3.0,)}, {"a": 2.0}, {"a": 2.0, "b": (3.0,), "c": 1.0})),
    "dicts with numbers for keys": (lambda t: t[1] * t[2 ** 40], calls({1: 2.0, 2 ** 40: 3.0}, {1: 2.5, 2 ** 40: 3.5}, {True: 2.0, 2 ** 40: 3.0}, {1.0: 2.0, 2 ** 40: 3.0}, {2 ** 40: 2.0, 1: 3.0})),
    "named tuples": (lambda p: p.x * np.sum(p.y), calls(Point(2.0, A), Point(3.0, A[::-1]), Point(3.0, A[:2]), Point(2, A), (2.0, A))),
    "objects": (lambda p: p.a * p.b[0], [((p,), {}) for p in (Line(2.0, [3.0]), Line(2.5, [3.5]), Line(2.5, [3]), Line(2.5, (3.5,)), Line(2.5, [3.5], "another"), Line(2.5, [3.5], "".join(["li", "ne"])),
                                                              Other(2.5, [3.5]), renamed(Line(2.5, [3.5]), more=1.0), Line(2.5, LIST))]),
    "one object in two places": (lambda p, q: p.a * q.a + p.b, [((p, q), {}) for p in (Line(2.0, 3.0), Line(2.5, 3.5)) for q in (p, Line(1.0, 1.0))]),
    "one list in two places": (lambda p: p[0][0] * p[1][0], [((p,), {}) for p in ([[2.0], [3.0]], [[2.5], [3.5]], [LIST, LIST], [LIST[:], LIST[:]])]),
    "one list in two arguments": (lambda p, q: p[0] * q[1], [((LIST, LIST), {}), ((LIST, LIST[:]), {}), ((LIST, LIST), {})]),
    "an object that refers to itself": (lambda p: p.value * p.next.value, calls(Node(2.0), Node(3.0), Node(3))),
    "arrays in containers": (lambda t: np.sum(t["a"][0] * t["a"][1]), calls({"a": [A, 2.0]}, {"a": [A[::-1], 2.5]}, {"a": [A.astype(np.float32), 2.5]}, {"a": [A[:2], 2.5]}, {"a": [A.astype(">f8"), 2.5]})),
    "long arrays": (lambda t: np.max(t[0] * np.sort(t[1])), [(((LONG, LONG[::-1]),), {}), (((LONG * 2.0, LONG),), {})]),
    "keywords": (lambda x, *, a, b: x * a - b, [((2.0,), {"a": 3.0, "b": 4.0}), ((2.5,), {"a": 3.5, "b": 4.5}), ((2.5,), {"b": 4.5, "a": 3.5}), ((2.5,), {"a": 3, "b": 4.5})]),
    "an argument by its name": (lambda x, y=1.0: x * y, [((), {"x": 2.0, "y": 3.0}), ((), {"x": 2.5, "y": 3.5}), ((2.5,), {"y": 3.5}), ((2.5, 3.5), {}), ((2.5,), {})]),
    "texts": (lambda x, how: x * (2.0 if how == "double" else 3.0), calls((2.0, "double"), (2.5, "".join(["dou", "ble"])), (2.5, "treble"), (2.5, b"double"))),
    "values that are no numbers": (lambda x, *how: x * len(how), calls((2.0, None, True, Kind.ONE, slice(0, 2), ..., np.dtype(float)), (2.5, None, True, Kind.ONE, slice(0, 2), ..., np.dtype(float)),
                                                                     (2.5, None, True, Kind.TWO, slice(0, 2), ..., np.dtype(float)), (2.5, None, True, Kind.ONE, slice(1, 2), ..., np.dtype(float)),
                                                                     (2.5, 1, True, Kind.ONE, slice(0, 2), ..., np.dtype(float)))),
    "functions": (twice, [((f, x), {}) for f in (closure(2.0), closure(3.0), abs, lambda x: x * 2.0, lambda x, k=2.0: x * k) for x in (1.5, 2.5)]),
    "a function that captured numbers and arrays": (closure(2.0), calls(1.5, 2.5, 3)),
    "a method": (Model(2.0, A).loss, [((1.5,), {}), ((2.5,), {}), ((2.5,), {"scale": 2.0}), ((3,), {})]),
    "an object that is called": (Model(2.0, A), calls(1.5, 2.5, 3)),
}
RESULTS: dict[str, Callable[..., Any]] = {
    "tuple": lambda x, a: (x * 2.0, (np.sum(a), ()), [a * 2.0]),
    "list": lambda x, a: [x * 2.0, [a * 2.0, x]],
    "dict": lambda x, a: {"x": x * 2.0, 3: {"a": a * 2.0, "none": None}},
    "named": lambda x, a: Point(x * 2.0, [a * x]),
    "object": lambda x, a: Line(x * 2.0, {"a": a * x}),
    "constants": lambda x, a: (x, 1.0, None, a, "text"),
    "shared": lambda x, a: (lambda part: [part, part])([x * 2.0]),
}


def outcome(f: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    try:
        return told(f(*args, **kwargs))
    except Exception as err:
        return f"{type(err).__name__}: {err}"


def told(x: Any) -> str:
    """Return what a result is: types, numbers to the last bit, nesting, which containers are one."""
    places: dict[int, int] = {}

    def of(x: Any) -> Any:
        if isinstance(x, (np.ndarray, float)):
            return type(x).__name__, str(np.asarray(x).dtype), np.asarray(x).tobytes(), np.shape(x)
        if isinstance(x, (tuple, list, dict, Line, Model, Node)) and x != ():
            if id(x) in places:
                return "again", places[id(x)]
            places[id(x)] = len(places)
        if isinstance(x, dict):
            return type(x).__name__, [(key, of(part)) for key, part in x.items()]
        if isinstance(x, (tuple, list)):
            return type(x).__name__, list(map(of, x))
        return (type(x).__name__, of(vars(x))) if isinstance(x, (Line, Model, Node)) else repr(x)
    return str(of(x))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad])
def test_arguments(name: str, make: Any) -> None:
    f, given = CASES[name]
    options = {"argnums": None} if make is tg.value_and_grad else {}
    native, plain = make(f, mode="native", warmup=1, **options), make(f, mode="numpy", warmup=1, **options)
    for args, kwargs in [given[0]] * 3 + given + [given[0]] + given:
        assert outcome(native, *args, **kwargs) == outcome(plain, *args, **kwargs)
    assert (native.stats.hits, native.stats.traces) == (plain.stats.hits, plain.stats.traces)


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    f = RESULTS[name]
    tape = tg.trace(f, 2.0, A)[1]
    native, plain = tg.compile(tape, mode="native"), tg.compile(tape, mode="numpy")
    assert hasattr(native, "ir") or name == "constants"
    for x in (2.0, 2.0, 2.5, 3.5):
        assert told(native(x, A)) == told(plain(x, A))
        assert name == "shared" or told(plain(x, A)) == told(f(x, A))
    found, other = native(2.0, A), native(2.0, A)
    assert found is not other
    if name == "tuple":
        found[2][0][0] = 100.0
        found[2].append(1)
        assert told(native(2.0, A)) == told(other)


def test_what_changes_between_calls() -> None:
    model, part = Model(2.0, A.copy()), [0.0]
    changes: list[Callable[[], Any]] = [
        lambda: setattr(model, "w", 3.0), lambda: setattr(model, "w", 3), lambda: setattr(model, "w", np.float64(3.0)),
        lambda: setattr(model, "b", np.arange(4.0)), lambda: model.b.fill(5.0), lambda: setattr(model, "kind", "other"),
        lambda: setattr(model, "more", 1.0), lambda: delattr(model, "more"), lambda: model.parts.append(1.0),
        lambda: setattr(model, "parts", [1.0, {"b": A}]), lambda: model.parts.__setitem__(1, {"b": A, "c": part}),
        lambda: vars(model).update({"w": vars(model).pop("w")}), lambda: setattr(model, "__dict__", dict(vars(model))),
        lambda: setattr(model, "__class__", type("Model", (Model,), {})), lambda: setattr(model, "w", model.parts),
    ]
    native, plain = (tg.value_and_grad(model.loss, argnums=None, mode=mode, warmup=1, max_tapes=64) for mode in ("native", "numpy"))
    for change in [lambda: None, *changes]:
        change()
        for x in (1.0, 2.0, 3.0):
            assert outcome(native, x) == outcome(plain, x)


def test_an_array_that_goes_meanwhile() -> None:
    """A piece in Python may take an array out of the argument that native code reads it from."""
    class Holder:
        def __init__(self) -> None:
            self.a = np.linspace(0.0, 1.0, 50_000)

    def f(holder: Holder) -> Any:
        total = np.sum(np.sort(holder.a * 2.0))
        for k in range(20):
            total = total + np.sin(holder.a[k]) * total
        return total
    fast = tg.compile(f, mode="native", warmup=1)
    for _ in range(3):
        expected = fast(Holder())
    run = next(iter(fast._entries.values()))[0].run
    assert "@tapegrad_invoke" in run.ir
    holder = Holder()

    def replace(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and "a" in vars(holder):
            del holder.a
            np.full(50_000, -1.0)
    sys.setprofile(replace)
    try:
        found = run(holder)
    finally:
        sys.setprofile(None)
    assert found == expected and not vars(holder)


def test_a_collection_runs_no_finalizer_meanwhile() -> None:
    """An object's `__dict__` is made when it is asked for, which may begin a collection; a finalizer may do anything."""
    fast = tg.compile(lambda t: t[0] * t[1].a + t[2][0], mode="native", warmup=1)
    for _ in range(3):
        fast([2.0, Line(3.0, 4.0), [5.0]])
    emptied = []

    class Finalizer:
        def __init__(self, of: list[Any]) -> None:
            self.of, self.me = of, self

        def __del__(self) -> None:
            emptied.append(len(self.of))
            self.of.clear()
    threshold = gc.get_threshold()
    try:
        for _ in range(200):
            t = [2.0, Line(3.0, 4.0), [5.0]]
            gc.set_threshold(1)
            Finalizer(t)
            with contextlib.suppress(IndexError):  # emptied before the call, or after it
                assert fast(t) == 11.0
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(emptied) == 200


LEAKS = {"tuples", "lists", "dicts", "named tuples", "objects", "arrays in containers", "keywords", "texts", "functions",
         "a method", "a function that captured numbers and arrays", "one list in two places", "an object that refers to itself"}


@pytest.mark.parametrize("name", sorted(LEAKS))
def test_arguments_leak_nothing(name: str) -> None:
    f, given = CASES[name]
    step = tg.value_and_grad(f, argnums=None, mode="native", warmup=1)
    args, kwargs = given[0]
    leaves = [x for x in gc.get_referents(args, *args) if not isinstance(x, type)]

    def spend(times: int) -> tuple[int, list[int]]:
        for _ in range(times):
            step(*args, **kwargs)
        gc.collect()
        return sys.getallocatedblocks(), [sys.getrefcount(x) for x in (*leaves, A, None, True)]
    spend(200)
    before, after = spend(100), spend(3000)
    assert abs(after[0] - before[0]) < 100
    assert all(abs(x - y) < 50 for x, y in zip(before[1], after[1]))


@pytest.mark.parametrize("name", RESULTS)
def test_results_leak_nothing(name: str) -> None:
    step = tg.compile(tg.trace(RESULTS[name], 2.0, A)[1], mode="native")

    def spend(times: int) -> tuple[int, list[int]]:
        for _ in range(times):
            step(2.0, A)
        gc.collect()
        return sys.getallocatedblocks(), [sys.getrefcount(x) for x in (A, None, True, Point, Line)]
    spend(200)
    before, after = spend(100), spend(3000)
    assert abs(after[0] - before[0]) < 100
    assert all(abs(x - y) < 50 for x, y in zip(before[1], after[1]))
