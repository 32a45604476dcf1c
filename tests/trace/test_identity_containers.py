"""Objects that are told apart by identity, as captured objects and in captured sets and dicts too: one object, one copy."""

from __future__ import annotations

import collections
import contextvars
import copy
import dataclasses
import functools
import itertools
import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import MutationError
from tapegrad.replay.interpreter import recorded


class P:
    def __init__(self, v: float) -> None:
        self.v = v


class World:
    """What the programs below are made of, anew for each way to call them."""

    def __init__(self) -> None:
        self.p, self.q = P(1.0), P(2.0)
        self.set, self.dict, self.seen = {self.p}, {self.p: 3.0, "k": 1.0}, set[P]()
        self.ordered, self.default = collections.OrderedDict({self.p: 1.0, self.q: 2.0}), collections.defaultdict(float, {self.p: 2.0})
        self.nested = {"a": {self.p}}

    @property
    def state(self) -> list[Any]:
        tables = [self.dict, self.ordered, self.default]
        return [self.p.v, self.q.v, *[sorted(o.v for o in each) for each in (self.set, self.seen)], *[[(getattr(k, "v", k), v) for k, v in table.items()] for table in tables],
                *[each in table for each in (self.p, self.q) for table in (*tables, self.set, self.seen)]]


def programs(w: World) -> dict[str, Callable[[Any], Any]]:
    p, q, members, table, seen, ordered, default, nested = w.p, w.q, w.set, w.dict, w.seen, w.ordered, w.default, w.nested

    def visited(x: Any) -> Any:
        total = 0.0
        for each in [p, q, p]:
            if each not in seen:
                seen.add(each)
                total = total + each.v * x
        return total

    def exchanged(x: Any) -> Any:
        members.discard(p)
        members.add(q)
        return x * sum(each.v for each in members) * p.v

    def set_item(x: Any) -> Any:
        table[p] = x
        table[q] = 2 * x
        return x * table[p] * p.v

    def deleted(x: Any) -> Any:
        return x * table.pop(p, 1.0) * p.v

    def moved(x: Any) -> Any:
        ordered.move_to_end(p)
        return sum(key.v * value * x for key, value in ordered.items())

    def counted(x: Any) -> Any:
        default[q] += x
        return sum(key.v * value for key, value in default.items()) * x
    return {"in a set": lambda x: p.v * x if p in members else -7.0 * x, "a key": lambda x: p.v * x * table[p], "visited": visited, "exchanged": exchanged, "set item": set_item,
            "deleted": deleted, "moved": moved, "counted": counted, "nested": lambda x: p.v * x if p in nested["a"] else -x,
            "joined": lambda x: x * len(members | {p, q}) * p.v, "equal": lambda x: p.v * x if members == {p} else -x}


@pytest.mark.parametrize("name", programs(World()))
@pytest.mark.parametrize("way", [lambda f: lambda x: tg.grad(f, x, captured=False)[0], lambda f: lambda x: tg.value_and_grad(f)(x)[0], lambda f: lambda x: tg.trace(f, x)[0]])
def test_one_object_has_one_copy(name: str, way: Any) -> None:
    plain, traced = World(), World()
    f, step = programs(plain)[name], way(programs(traced)[name])
    for x in (1.5, 2.5, 3.5, 0.5, 1.0):
        assert float(step(x)) == float(f(x))
        assert traced.state == plain.state
    assert {type(key) for key in traced.dict} <= {P, str}


VARIABLE, LOCAL = contextvars.ContextVar[Any]("VARIABLE"), threading.local()
KEPT: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], bool]]] = {
    "a weak reference": (weakref.ref, lambda kept, p: kept() is p),
    "a context variable": (VARIABLE.set, lambda kept, p: VARIABLE.get() is p),
    "a thread's own": (lambda p: setattr(LOCAL, "p", p), lambda kept, p: LOCAL.p is p),
    "an array of objects": (lambda p: np.array([p, None], dtype=object), lambda kept, p: kept[0] is p and kept[1] is not p),
}


@pytest.mark.filterwarnings("ignore::tapegrad.compile.path.RetraceWarning")  # a weak reference is no input
@pytest.mark.parametrize("name", KEPT)
def test_an_original_is_its_copy(name: str) -> None:
    keep, is_it = KEPT[name]
    p = P(1.5)
    kept = keep(p)
    step = tg.value_and_grad(lambda x: x * p.v if is_it(kept, p) else -x)
    for x in (2.0, 3.0, 4.0):
        assert step(x) == (x * 1.5, 1.5)


def test_an_object_that_two_arguments_hold_is_one() -> None:
    a, b = P(1.0), P(2.0)
    a.part = b  # type: ignore[attr-defined]
    step = tg.value_and_grad(lambda a, b, x: x if a.part is b and b is not a else -x, argnums=2)
    for x in (2.0, 3.0, 4.0):
        assert step(a, b, x) == (x, 1.0)


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("made", [lambda: P(3.0), lambda: P("text"), lambda: [1.0], lambda: {}, lambda: {3}, lambda: (lambda v: lambda: v)(3.0), lambda: functools.partial(pow, 2.0)],  # type: ignore[arg-type]
                         ids=["object", "no number", "list", "dict", "set", "closure", "partial"])
@pytest.mark.parametrize("mode", ["native", "numpy"])
def test_a_tape_holds_for_arguments_that_have_as_much_in_common(made: Callable[[], Any], mode: Any) -> None:
    one, two = made(), made()
    pairs = [((one, one), 2.0), ((one, two), -1.0)]
    for (pair, known), (other, then) in (pairs, pairs[::-1]):
        def f(a: Any, b: Any, x: Any) -> Any:
            return x * 2 if a[0] is b[0] else -x
        step = tg.compile(f, mode=mode, warmup=1)
        for given, value in ((pair, known), (other, then), (pair, known)):
            assert [step(*[[part] for part in given], x) for x in (1.0, 2.0)] == [value, 2 * value]
        tape = tg.trace(f, *[[part] for part in pair], 1.0)[1]
        assert tape.play(*[[part] for part in pair], 3.0) == 3 * known
        with pytest.raises(tg.ArgumentError, match=r"share other objects|functions or the objects"):
            tape.play(*[[part] for part in other], 1.0)


def test_recorded_arguments_have_as_much_in_common() -> None:
    part = [2.0]
    tape = tg.trace(lambda a, b, *, c: a[0][0] * b[0] * c[0], [part], part, c=part)[1]
    args, kwargs = recorded(tape)
    assert args[0][0] is args[1] is kwargs["c"] and tape.play(*args, **kwargs) == 8.0


class Slotted:
    __slots__ = ("v",)

    def __init__(self, v: float) -> None:
        self.v = v


class ByValue(P):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue) and self.v == other.v
    __hash__ = P.__hash__


class Holder:
    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)


def in_a_thread(a: Any, b: Any) -> bool:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(a in b))
    thread.start()
    thread.join()
    return found[0]


ONE: dict[str, Callable[[Any, list[Any]], Any]] = {
    "in": lambda a, b: a in b, "==": lambda a, b: a == b[0] and (a != b[0]) is False, "count": lambda a, b: b.count(a), "index": lambda a, b: b.index(a) == 0, "lists": lambda a, b: [a] == b,
    "tuples": lambda a, b: (a, 1) == (b[0], 1), "removed": lambda a, b: not [*b].remove(a), "a set": lambda a, b: len({a, *b}) == 1, "a dict": lambda a, b: {a: 1}[b[0]], "joined": lambda a, b: {a} & {*b},  # type: ignore[func-returns-value]
    "id": lambda a, b: id(a) == id(b[0]), "ids": lambda a, b: len({*map(id, [a, *b])}) == 1, "hash": lambda a, b: hash((a, 1)) == hash((b[0], 1)), "contains": lambda a, b: operator.contains(b, a),
    "a thread": in_a_thread, "its class": lambda a, b: type(a) is type(b[0]) is a.__class__ and type(a) in (P, Slotted, ByValue) and isinstance(a, type(b[0])),
    "a copy": lambda a, b: type(copy.copy(a)) in (P, Slotted, ByValue) and (copy.copy(a) in b) == isinstance(a, ByValue),
}


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")  # an id is no input
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("kind", [P, Slotted, ByValue])
def test_the_copies_of_an_object_that_two_arguments_hold_are_one(name: str, kind: Any) -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        return x * 2 if ONE[name](a.parts[0], b.parts) else -x
    part = kind(3.0)
    a, b = Holder(part), Holder(part)
    step = tg.compile(f, warmup=1)
    assert [f(a, b, 2.0), tg.grad(f, a, b, 2.0)[0], tg.trace(f, a, b, 2.0)[0], *[step(a, b, 2.0) for _ in range(3)]] == [4.0] * 6
    assert tg.grad(lambda x: f(a, b, x), 2.0, captured=False) == (4.0, (None, 2.0))
    assert type(part) is kind and type(tg.trace(lambda a, b: (a, b), a, b)[0][0].parts[0]) is kind


class Edge(NamedTuple):
    u: Any
    v: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    u: Any
    v: Any


class Net:
    def __init__(self, key: Callable[[Any, Any], Any]) -> None:
        self.key, self.nodes = key, [P(1.0), P(2.0)]
        self.weights, self.members = {key(*self.nodes): 3.0, "k": 1.0}, {key(*self.nodes)}

    def run(self, x: Any) -> Any:
        key = self.key(*self.nodes)
        self.weights[self.key(*self.nodes[::-1])] = x
        self.members.add(self.key(*self.nodes[::-1]))
        return x * self.weights.get(key, 0.0) * (2 if key in self.members else 1) * self.nodes[1].v

    @property
    def state(self) -> Any:
        keys = [self.key(*self.nodes), self.key(*self.nodes[::-1])]
        return [self.weights.get(key) for key in keys], [key in self.members for key in keys], len(self.weights), len(self.members)


@pytest.mark.parametrize("key", [lambda u, v: (u, v), lambda u, v: ((u, 1), v), lambda u, v: frozenset([(u, 1), v]), Edge, Frozen])
@pytest.mark.parametrize("way", [lambda f: lambda x: tg.grad(f, x, captured=False)[0], lambda f: lambda x: tg.value_and_grad(f)(x)[0], lambda f: lambda x: tg.trace(f, x)[0]])
def test_objects_in_keys_are_found_by_their_copies(key: Any, way: Any) -> None:
    plain, traced = Net(key), Net(key)
    step = way(traced.run)
    for x in (1.5, 2.5, 3.5):
        assert float(step(x)) == plain.run(x)
        assert traced.state == plain.state
    net = Net(key)
    assert tg.grad(lambda weights, u, v, x: x * weights.get(key(u, v), 0.0), net.weights, *net.nodes, 2.0)[0] == 6.0


def test_what_the_documentation_says_of_objects() -> None:
    """docs/limits.md, Copies and other names; Cached functions; Results of a tape."""
    a = P(1.0)
    assert tg.trace(lambda x: (x * a.v, hash((a, 1))), 2.0)[0][1] == hash((a, 1))
    assert tg.trace(lambda x: (x * a.v, (a, 1).__hash__()), 2.0)[0][1] != hash((a, 1))
    calls = []

    @functools.lru_cache
    def value(p: P) -> float:
        calls.append(p)
        return p.v
    value(a)
    tg.grad(lambda x: x * value(a), 2.0, captured=False)
    assert len(calls) == 2 and value.cache_info().currsize == 0

    class Label(str):
        tags: list[str]

    def labelled(x: Any) -> Any:
        made = Label("abc")
        made.tags = []
        return x * x, made
    tape = tg.trace(labelled, 1.0)[1]
    assert tape.play(2.0)[1] is tape.play(3.0)[1]


@pytest.mark.parametrize("make", [lambda p: frozenset([p]), lambda p: weakref.WeakSet([p]), lambda p: weakref.WeakKeyDictionary({p: 2.0})])
def test_what_cannot_be_made_again_is_refused(make: Any) -> None:
    p = P(1.0)
    members = make(p)
    for call in (lambda f: tg.grad(f, 1.5, captured=False), lambda f: tg.value_and_grad(f)(1.5)):
        with pytest.raises(MutationError, match="looks objects up by identity"):
            call(lambda x: p.v * x if p in members else -7.0 * x)


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("number", [id, hash], ids=["id", "hash"])
def test_an_object_has_the_number_that_the_caller_knows(number: Any) -> None:
    kept = [P(float(k)) for k in range(1, 6)]
    of_id, of_hash = (lambda p, x: p.v * x * (id(p) % 1001)), (lambda p, x: p.v * x * (hash(p) % 1001))
    f = of_id if number is id else of_hash
    step = tg.value_and_grad(f, argnums=1, warmup=1)
    assert [step(p, 2.0)[0] for p in kept] == [f(p, 2.0) for p in kept] == [tg.grad(f, p, 2.0)[0] for p in kept]
    table = {number(p): p.v for p in kept}
    p = kept[2]
    assert tg.grad((lambda x: table[id(p)] * x) if number is id else (lambda x: table[hash(p)] * x), 2.0)[0] == p.v * 2


def test_dicts_of_attributes_that_are_exchanged() -> None:
    def make() -> Any:
        a, b = P(1.0), P(2.0)

        def f(x: Any) -> Any:
            a.__dict__, b.__dict__ = b.__dict__, a.__dict__
            a.v = a.v + x
            return a.v * x
        return f, a, b
    (f, a, b), (g, c, d) = make(), make()
    step = tg.value_and_grad(g)
    for x in (1.5, 2.5, 0.5, 1.0):
        assert step(x)[0] == f(x) and (a.v, b.v) == (c.v, d.v)


class Borg:
    shared: ClassVar[dict[str, Any]] = {"v": 1.0}

    def __init__(self) -> None:
        self.__dict__ = self.shared


TABLE: list[Any] = []


def read_by(other: str, a: Any) -> Any:
    b, table = P(2.0), vars(a)
    b.__dict__, TABLE[:] = table, [table]
    return {"class": lambda: Borg().v, "global": lambda: TABLE[0]["v"], "two": lambda: b.v, "captured": lambda: table["v"]}[other]


@pytest.mark.parametrize("other", ["class", "global", "two", "captured"])
def test_a_dict_of_attributes_that_others_hold_too(other: str) -> None:
    def make() -> Any:
        Borg.shared = {"v": 1.0}
        a = Borg()
        read = read_by(other, a)

        def f(x: Any) -> Any:
            a.v = a.v * 0.5 + x
            return x * read()
        return f, lambda x: a.v * x * read(), a
    f, g, a = make()
    want = [(f(x), a.v) for x in (1.5, 0.5, 2.0)]
    f, g, a = make()
    step = tg.value_and_grad(f, captured=False, warmup=1)
    if other in ("two", "captured"):  # the program was given it twice
        with pytest.raises(MutationError, match="as well: the write would not be seen"):
            step(1.5)
    else:
        assert [(step(x)[0], a.v) for x in (1.5, 0.5, 2.0)] == want
    f, g, a = make()
    assert tg.grad(g, 2.0, captured=False) == (g(2.0), (None, 1.0))


class Unit:
    """A class whose methods of the right operand know that the left one is none of it, as those of pint's containers."""

    def __init__(self, v: Any) -> None:
        self.v = v

    def __truediv__(self, other: Any) -> Any:
        return Unit(self.v / other.v) if isinstance(other, Unit) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return Unit(1000.0 / self.v)

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if type(other) is Offset else Unit(self.v - other.v)

    def __rsub__(self, other: Any) -> Any:
        return Unit(-77.0 * self.v)


class Offset(Unit):
    def __rtruediv__(self, other: Any) -> Any:
        return Unit(10.0 * self.v)


LEADING: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "cycle": lambda o: functools.partial(next, itertools.cycle([o])), "weak reference": weakref.ref,
    "thread's own": lambda o: (lambda own: (setattr(own, "o", o), lambda: own.o)[1])(threading.local())}


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("way", LEADING)
@pytest.mark.parametrize("kind", [Unit, Offset])
def test_an_original_is_a_right_operand_as_its_class_says(way: str, kind: Any) -> None:
    def make() -> Any:
        o = kind(4.0)
        get = LEADING[way](o)
        return lambda x: (Unit(x) / get()).v * x + (Unit(x) - get()).v * x + (2.0 / get()).v + o.v
    for captured in (False, True):
        assert tg.grad(make(), 2.0, captured=captured)[0] == make()(2.0)
    step, f = tg.value_and_grad(make(), warmup=1), make()
    assert [step(x)[0] for x in (2.0, 3.0, 4.0, 5.0)] == [f(x) for x in (2.0, 3.0, 4.0, 5.0)]
