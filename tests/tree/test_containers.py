"""Containers of a program's classes, and attributes beside the content of Python's own: read and made by Python's methods."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tg


class Times(list[Any]):
    def __iter__(self) -> Any:
        for value in list.__iter__(self):
            yield 10 * value


class Doubled(dict[str, Any]):
    def items(self) -> Any:
        return [(key, 2 * value) for key, value in dict.items(self)]


class Ordered(collections.OrderedDict[str, Any]):
    pass


class Queue(collections.deque[Any]):
    pass


class Default(collections.defaultdict[str, Any]):
    pass


class All(set[Any]):
    def __contains__(self, key: object) -> bool:
        return True


class Pair(NamedTuple):
    a: float
    b: float


class Tagged(Pair):
    pass


class Own(collections.namedtuple("Own", "a b")):
    __slots__ = ()

    def __iter__(self) -> Any:
        return iter((self.a, 4.0))


def tagged(x: Any, tag: float = 3.0) -> Any:
    x.tag = tag
    return x


MAKE: dict[str, tuple[Callable[[float], Any], Callable[[Any], Any]]] = {
    "iterated": (lambda v: Times([v, 2.0]), lambda o: sum(part for part in o) + o[0]),
    "items": (lambda v: Doubled(a=v), lambda o: sum(part for _, part in o.items()) + o["a"]),
    "ordered": (lambda v: Ordered(b=v, a=2.0), lambda o: sum(o.values()) + (next(iter(o)) == "b")),
    "queue": (lambda v: Queue([v, 2.0], maxlen=3), lambda o: sum(o) * o.maxlen),
    "default": (lambda v: Default(float, a=v), lambda o: o.default_factory() + o["a"]),
    "tuple": (lambda v: Own(v, 2.5), lambda o: sum(part for part in o) + o[0] + o.b),
    "tagged tuple": (lambda v: tagged(Tagged(v, 2.0)), lambda o: o.a * o.tag),
    "tagged dict": (lambda v: tagged(collections.OrderedDict(a=v)), lambda o: o["a"] * o.tag),
    "tagged subclass": (lambda v: tagged(Ordered(a=v)), lambda o: o["a"] * o.tag),
    "tagged queue": (lambda v: tagged(Queue([v])), lambda o: o[0] * o.tag),
}
NUMBERS = (1.5, 1.5, 1.5, 5.0, 7.0)


def told(x: Any) -> Any:
    base = next(kind for kind in (dict, list, collections.deque, tuple) if isinstance(x, kind))
    content = list(dict.items(x)) if base is dict else list(base.__iter__(x))
    return type(x), content, getattr(x, "__dict__", None), getattr(x, "default_factory", None), getattr(x, "maxlen", None)


@pytest.mark.parametrize("name", MAKE)
def test_as_arguments_captured_and_as_results(name: str) -> None:
    make, read = MAKE[name]
    expected = [read(make(v)) * 2.0 for v in NUMBERS]
    step, slope = tg.compile(lambda o, x: read(o) * x), tg.value_and_grad(lambda o, x: read(o) * x, argnums=1)
    given = [make(v) for v in NUMBERS]
    assert [step(o, 2.0) for o in given] == expected
    assert [slope(o, 2.0) for o in given] == [(v, v / 2.0) for v in expected]
    o = make(1.5)
    assert [tg.grad(lambda o, x: read(o) * x, o, 2.0)[0] for _ in range(3)] == [expected[0]] * 3
    assert [captured(2.0) for captured in [tg.compile(lambda x: read(o) * x)] for _ in range(4)] == [expected[0]] * 4
    assert told(o) == told(make(1.5)) and list(map(told, given)) == [told(make(v)) for v in NUMBERS]
    for run in (lambda v: tg.trace(make, v)[0], tg.trace(make, 1.0)[1].play, tg.compile(make)):
        for v in NUMBERS:
            assert told(run(v)) == told(make(v))


@pytest.mark.parametrize("o, change", [
    (Queue([1.0, 2.0]), lambda o: o.append(9.0)), (Times([1.0]), lambda o: o.append(2.0)), (Ordered(a=1.0), lambda o: o.update(b=2.0)),
    (tagged(collections.OrderedDict(a=1.0)), lambda o: tagged(o, 5.0))])
def test_a_captured_one_that_changes_is_seen(o: Any, change: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        return x * sum(o.values() if isinstance(o, dict) else o) * getattr(o, "tag", 1.0)
    step = tg.compile(f)
    for _ in range(5):
        assert step(2.0) == f(2.0)
    change(o)
    for _ in range(3):
        assert step(2.0) == f(2.0)


def test_sets_of_a_class() -> None:
    kinds = All([1])
    tagged(kinds)
    step = tg.compile(lambda x: x * (7 in kinds) * kinds.tag)
    assert [step(2.0) for _ in range(4)] == [6.0] * 4
    assert tg.grad(lambda s, x: x * (7 in s) * s.tag, kinds, 2.0, argnums=1)[0] == 6.0 and vars(kinds) == {"tag": 3.0} and set.__eq__(kinds, {1})


class Checked(collections.namedtuple("Checked", "a b")):
    """A named tuple whose class looks at what it is given."""

    __slots__ = ()

    def __new__(cls, a: Any, b: Any) -> Checked:
        if not float(a) > 0:
            raise ValueError("a is positive")
        return super().__new__(cls, a, b)


def test_a_named_tuple_of_gradients_is_not_checked_as_the_arguments_are() -> None:
    def f(t: Checked) -> Any:
        return -t.a * t.b
    for way in (lambda t: tg.gradient(f, t)[0], lambda t: tg.value_and_grad(f)(t)[1], lambda t: tg.grad(lambda x: (f(x), x), t, has_aux=True)[1][1]):
        assert [tuple(way(Checked(2.0, 3.0))) for _ in range(4)] == [(-3.0, -2.0)] * 4
        assert type(way(Checked(2.0, 3.0))) is Checked


class Trio(tuple):  # type: ignore[type-arg]
    pass


class Space(types.SimpleNamespace):
    pass


@pytest.mark.parametrize(("x", "f"), [
    (Trio([3.0]), lambda a: a[0] ** 2), (collections.UserList([3.0]), lambda a: a[0] ** 2), (collections.UserDict(w=3.0), lambda a: a["w"] ** 2),
    (collections.ChainMap({"w": 3.0}), lambda a: a["w"] ** 2), (Space(w=3.0), lambda a: a.w ** 2)], ids=["tuple", "UserList", "UserDict", "ChainMap", "SimpleNamespace"])
def test_numbers_in_wrappers_have_gradients(x: Any, f: Any) -> None:
    step = tg.value_and_grad(f)
    for dx in (tg.grad(f, x)[1][1], step(x)[1], step(x)[1], step(x)[1], step(x)[1]):
        assert f(dx) == 36.0  # it is nested as the argument is
    assert tg.compile(f)(x) == tg.trace(f, x)[1].play(x) == 9.0


def test_numbers_without_a_gradient_are_those_that_docs_limits_lists() -> None:
    class Group(set):  # type: ignore[type-arg]
        w = 0.0
    error, group = ValueError(3.0), Group([1])
    error.w = group.w = 3.0  # type: ignore[attr-defined]
    for x in (error, group):
        assert tg.grad(lambda a, b: a.w * b, x, 2.0) == (6.0, (None, None, 3.0))


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("base", [list, dict, collections.OrderedDict, collections.deque, set])
def test_slots_of_containers_are_kept(base: type) -> None:
    class Slotted(base):  # type: ignore[misc]
        __slots__ = ("w",)

    def made(x: Any) -> Any:
        c = Slotted()
        c.w = x * 2
        return c
    run, step = tg.compile(made), tg.value_and_grad(lambda x: (x * x, made(x)), has_aux=True)
    for i in range(5):
        for found in (run(i + 1.0), step(i + 1.0)[0][1], tg.trace(made, i + 1.0)[0]):
            assert type(found) is Slotted and found.w == 2 * (i + 1)
    c = Slotted()
    c.w = 3.0
    assert tg.grad(lambda c, x: c.w * x, c, 2.0)[1][2] == 3.0
    kept: dict[str, Any] = {}
    tg.grad(lambda x: (kept.update(c=made(x)), x * x)[1], 3.0)
    assert type(kept["c"].w) is float and kept["c"].w == 6.0


class AttrDict(dict):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__ = self


def test_a_dict_that_is_its_own_attributes_stays_one() -> None:
    for way in (tg.compile(lambda x: AttrDict(a=x * 2)), lambda x: tg.grad(lambda x: (x, AttrDict(a=x * 2)), x, has_aux=True)[0][1]):
        for _ in range(4):
            found = way(1.0)
            assert found.a == found["a"] == 2.0
            found["a"] = 7.0
            assert found.a == 7.0
    assert tg.gradient(lambda d: d.a * d["a"], AttrDict(a=3.0))[0]["a"] == 6.0


class Scaled(functools.partial):  # type: ignore[type-arg]
    def twice(self, x: Any) -> Any:
        return 2 * self(x)


def test_classes_of_partials_and_arrays_are_kept() -> None:
    scaled = Scaled(lambda a, x: a * x, 3.0)
    assert type(tg.trace(lambda x: Scaled(lambda a, b: a * b, x), 2.0)[0]) is Scaled
    assert tg.gradient(lambda p, x: p.twice(x), scaled, 2.0)[1] == 6.0

    class Signal(np.ndarray):  # type: ignore[type-arg]
        pass
    kept: dict[str, Any] = {}

    def f(x: Any) -> Any:
        signal = (np.ones(2) * x).view(Signal)
        signal.rate = x * 2
        kept["s"] = signal
        return signal.sum() * 2
    tg.grad(f, 1.0)
    assert type(kept["s"]) is Signal and kept["s"].rate == 2.0


def test_integers_in_frozen_sets_and_keys_are_plain() -> None:
    def program(make: Any) -> Any:
        n = 3
        return lambda x: make(n, x)
    class Frozen(frozenset):  # type: ignore[type-arg]
        pass
    for make in (lambda n, x: frozenset([n]), lambda n, x: Frozen([n]), lambda n, x: (x, frozenset([n])), lambda n, x: collections.Counter([n, n]), lambda n, x: collections.Counter({n: x})):
        f = program(make)
        run = tg.compile(f)
        for found in (tg.trace(f, 1.0)[0], run(1.0), run(1.0), run(1.0)):
            part = found[1] if isinstance(found, tuple) else found
            assert [type(x) for x in part] == [int]
            assert found == f(1.0)
