"""Containers of a program's classes, and attributes beside the content of Python's own: read and made by Python's methods."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

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
