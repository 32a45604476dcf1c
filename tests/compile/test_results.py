"""What a compiled function returns: in memory of its own, made as the program makes it, and never what an earlier call returned."""

from __future__ import annotations

import array
import collections
import datetime
import fractions
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

WAYS: dict[str, dict[str, Any]] = {"numpy": {"mode": "numpy"}, "native": {"mode": "native"}, "torch": {"backend": "torch"}, "at once": {"warmup": 1}}
SCALE = np.array([7.0, 8.0, 9.0])


class Bag:
    def __init__(self, held: Any) -> None:
        self.held = held


def pair_of(held: Any) -> Any:
    return [held, held]


# what does not depend on the input, and is written to by whoever gets it
MADE: dict[str, Callable[[], Any]] = {
    "an array": lambda: SCALE * 1, "a folded array": lambda: np.sqrt(SCALE), "a view": lambda: SCALE.copy()[::-1], "in a dict": lambda: {"k": SCALE * 2},
    "in lists": lambda: [SCALE * 2, (SCALE * 1,)], "in an object": lambda: Bag(SCALE * 1), "twice": lambda: pair_of(SCALE * 1),
    "texts": lambda: np.array(["a", "b"]), "objects": lambda: np.array([None, "b"], object), "records": lambda: np.zeros(2, [("a", float)]),
    "dates": lambda: np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"), "bytes": lambda: bytearray(b"abc"), "set": lambda: {1, 2},
    "numbers of the library's": lambda: array.array("d", [1.0, 2.0]), "a list of texts": lambda: ["a", ["b"]], "a dict of texts": lambda: {"a": "b"}}


def told(x: Any) -> str:
    """Return what is in a result, and write to it."""
    if isinstance(x, (list, tuple)):
        text = f"{type(x).__name__}({', '.join(map(told, x))})"
        if isinstance(x, list):
            x.append("more")
        return text
    if isinstance(x, (dict, Bag)):
        held = x if isinstance(x, dict) else vars(x)
        text = ", ".join(f"{key}: {told(value)}" for key, value in held.items())
        held["more"] = 1
        return text
    text = repr(x.numpy() if hasattr(x, "numpy") else x)
    if isinstance(x, set):
        x.add("more")
    elif hasattr(x, "__setitem__"):
        x[0] = "z" if getattr(x, "dtype", None) in ("<U1", object) else (77.0,) if getattr(x, "dtype", None) == [("a", float)] else x[1] if len(x) < 3 else 77
    return text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
def test_what_depends_on_no_input_lies_in_memory_of_its_own(name: str, way: str) -> None:
    make, x = MADE[name], np.ones(3)
    step = tg.value_and_grad(lambda x: ((x ** 2).sum(), make()), has_aux=True, **WAYS[way])
    alone, beside = tg.compile(lambda x: make(), **WAYS[way]), tg.compile(lambda x: (x.sum(), make()), **WAYS[way])
    played, every = tg.trace(lambda x: (x.sum(), make()), x)[1].play, tg.trace(lambda x: make(), x)[1].play
    for call in (lambda: step(x)[0][1], lambda: alone(x), lambda: beside(x)[1], lambda: played(x)[1], lambda: every(x)):
        first = told(call())
        assert [told(call()) for _ in range(5)] == [first] * 5
    assert SCALE.tolist() == [7.0, 8.0, 9.0]


class Item:
    def __init__(self, name: str, w: Any) -> None:
        self.name, self.w = name, w

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def kind_of(base: Any, *args: Any) -> Any:
    kind = type("Kind", (base,), {})

    def make(x: Any) -> Any:
        made = kind(*args)
        made.w = x * 1.0
        return made
    return make, lambda made: made.w


def in_array(x: Any) -> Any:
    held = np.empty(1, object)
    held[0] = Item("a", x * 1.0)
    return held


def in_default(x: Any) -> Any:
    def f(w: Any = x * 1.0) -> Any:
        return w
    return f


KEY = kind_of(str, "k")[0]
# equal at every call, though they hold other numbers
EQUAL: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "text": kind_of(str, "a"), "integer": kind_of(int, 3), "float": kind_of(float, 3.0), "complex": kind_of(complex, 3.0), "bytes": kind_of(bytes, b"a"),
    "set": kind_of(set, "a"), "frozenset": kind_of(frozenset, "a"), "fraction": kind_of(fractions.Fraction, 1, 3), "date": kind_of(datetime.date, 2020, 1, 1),
    "span": kind_of(datetime.timedelta), "float64": kind_of(np.float64, 2.0), "user's text": kind_of(collections.UserString, "a"),
    "set of objects": (lambda x: {Item("a", x * 1.0)}, lambda r: next(iter(r)).w), "array of objects": (in_array, lambda r: r[0].w),
    "frozenset of objects": (lambda x: frozenset([Item("a", x * 1.0)]), lambda r: next(iter(r)).w),
    "key": (lambda x: {KEY(x): 1.0}, lambda r: next(iter(r)).w), "default": (in_default, lambda f: f())}


@pytest.mark.parametrize(("name", "way"), [(name, way) for name in EQUAL for way in WAYS if (name, way) != ("float64", "torch")])  # it is a tensor there
def test_no_result_holds_numbers_of_an_earlier_call(name: str, way: str) -> None:
    make, read = EQUAL[name]
    whole, beside = tg.compile(make, **WAYS[way]), tg.value_and_grad(lambda x: (x * x, make(x)), has_aux=True, **WAYS[way])
    tape = tg.trace(lambda x: (x, make(x)), 1.0)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        for call in (whole, lambda x: beside(x)[0][1]):
            assert [float(read(call(x))) for x in (1.0, 2.0, 3.0, 4.0, 5.0)] == [1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(tg.GuardError, match="contains traced values"):
        tape.play(2.0)


def test_one_warning_says_what_a_result_holds() -> None:
    make, read = EQUAL["text"]
    step = tg.compile(make, warmup=1)
    with pytest.warns(tg.RetraceWarning, match="returns a Kind that contains traced values") as caught:
        assert [read(step(x)) for x in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
    assert len(caught) == 1


class Doubling(collections.namedtuple("Doubling", "x y")):
    __slots__ = ()

    def __new__(cls, x: Any, y: Any) -> Any:
        return super().__new__(cls, x * 2, y)


@pytest.mark.parametrize("way", WAYS)
def test_no_code_of_the_class_of_a_named_tuple_runs_twice(way: str) -> None:
    point = Doubling(1.0, 3.0)
    made, step = tg.compile(lambda x: Doubling(x, (x, Doubling(x, x))), **WAYS[way]), tg.value_and_grad(lambda p: p.x * p.y, **WAYS[way])
    for x in (1.0, 2.0, 3.0, 4.0):
        found, (value, slope) = made(x), step(point)
        assert (found.x, found.y[0], *found.y[1]) == (2 * x, x, 2 * x, x) and type(found) is type(found.y[1]) is type(slope) is Doubling
        assert value == 6.0 and tuple(slope) == (3.0, 2.0)


@pytest.mark.parametrize("f", [lambda x: x.dtype, lambda x: np.result_type(x, 1), lambda x: (x.dtype, x.dtype.type), lambda x: np.dtype("f4")])
def test_a_dtype_that_is_returned_is_a_dtype(f: Any) -> None:
    for options in WAYS.values():
        step = tg.compile(f, **options)
        assert [repr(step(np.ones(2))) for _ in range(3)] == [repr(f(np.ones(2)))] * 3
