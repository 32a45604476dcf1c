"""A second way to what a program was given, made before the call, leads to what the program writes, or the write is
refused where it stands.
"""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import functools
import itertools
import mmap
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

Program = tuple[Callable[[Any], Any], Callable[[], Any]]
SEEN: list[Callable[[], Program]] = []
REFUSED: list[Callable[[], Program]] = []


class Bag:
    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


class Rows(list[Any]):
    pass


def of_dict(second: Callable[[dict[str, Any]], Any], read: Callable[[Any], Any]) -> Callable[[], Program]:
    def made() -> Program:
        d: dict[str, Any] = {"a": 2.0}
        way = second(d)

        def f(x: Any) -> Any:
            d["a"] = d["a"] + x
            return x * read(way)
        return f, lambda: d["a"]
    return made


def of_list(second: Callable[[list[Any]], Any], read: Callable[[Any], Any]) -> Callable[[], Program]:
    def made() -> Program:
        items = Rows([1.0, 2.0])
        way = second(items)

        def f(x: Any) -> Any:
            items[0] = items[0] + x
            return x * read(way)
        return f, lambda: list(items)
    return made


def of_array(second: Callable[[Any], Any], read: Callable[[Any], Any]) -> Callable[[], Program]:
    def made() -> Program:
        numbers = np.array([1.0, 2.0])
        way = second(numbers)

        def f(x: Any) -> Any:
            numbers[0] = numbers[0] + 1.0
            return x * read(way)
        return f, numbers.tolist
    return made


def of_memory(memory: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], Program]:
    def made() -> Program:
        way = memory()
        numbers = np.frombuffer(way)

        def f(x: Any) -> Any:
            numbers[0] = numbers[0] + 1.0
            return x * read(way)
        return f, numbers.tolist
    return made


def endless(items: list[Any]) -> Any:
    while True:
        yield items[0]


SEEN += [
    of_dict(lambda d: d.values(), sum), of_dict(lambda d: d.items(), lambda way: dict(way)["a"]),
    of_dict(lambda d: d.keys(), len), of_dict(types.MappingProxyType, lambda way: way["a"]),
    of_dict(lambda d: types.MappingProxyType(types.MappingProxyType(d)), lambda way: way["a"]),
    of_dict(lambda d: d.get, lambda way: way("a")), of_dict(lambda d: [d.values()], lambda way: sum(way[0])),
    of_dict(lambda d: Bag(get=d.get), lambda way: way.get("a")),
    of_list(lambda items: items.__getitem__, lambda way: way(0)),
    of_list(lambda items: functools.partial(items.__getitem__, 0), lambda way: way()),
    of_list(lambda items: items.__len__, lambda way: way()),
    of_list(lambda items: itertools.cycle([Bag(items=items)]), lambda way: next(way).items[0]),
    of_list(weakref.proxy, lambda way: way[0]), of_dict(collections.ChainMap, lambda way: way["a"]),
]
REFUSED += [
    of_list(enumerate, lambda way: next(way)[1]), of_list(iter, next), of_list(reversed, next), of_list(zip, lambda way: next(way)[0]),
    of_list(lambda items: map(float, items), next), of_list(endless, next),
    of_list(lambda items: (item for item in items), next), of_list(itertools.cycle, next),
    of_list(weakref.ref, lambda way: way()[0]),
    of_array(lambda x: x.sum, lambda way: way()), of_array(lambda x: x[:1], lambda way: way[0]),
    of_array(memoryview, lambda way: way[0]), of_array(torch.from_numpy, lambda way: way[0].item()),
    of_array(lambda x: x.flat, lambda way: way[0]), of_array(np.nditer, lambda way: float(way[0])),
    of_array(lambda x: x.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), lambda way: way[0]),
    of_memory(lambda: array.array("d", [1.0, 2.0]), lambda way: way[0]),
    of_memory(lambda: (ctypes.c_double * 2)(1.0, 2.0), lambda way: way[0]),
    of_memory(lambda: bytearray(16), lambda way: way[7]), of_memory(lambda: mmap.mmap(-1, 16), lambda way: way[7]),
    of_memory(lambda: np.ones(2, [("x", float)]), lambda way: way["x"][0]),
]


@REFUSED.append
def bytes_in_an_array() -> Program:
    data = bytearray(16)
    numbers = np.frombuffer(data)

    def f(x: Any) -> Any:
        data[7] = 64
        return x * numbers[0]
    return f, lambda: bytes(data)


@REFUSED.append
def array_in_a_tensor() -> Program:
    tensor = torch.ones(2, dtype=torch.float64)
    numbers = tensor.numpy()

    def f(x: Any) -> Any:
        tensor[0] += 1.0
        return x * numbers[0]
    return f, tensor.tolist


@REFUSED.append
def attributes_as_a_dict() -> Program:
    held = Bag(n=1.0)
    names = vars(held)

    def f(x: Any) -> Any:
        held.n = held.n + 1
        return x * names["n"]
    return f, lambda: held.n


@REFUSED.append
def context_variable() -> Program:
    items, variable = [1.0], contextvars.ContextVar[Any]("variable")
    variable.set(items)

    def f(x: Any) -> Any:
        items.append(2.0)
        return x * len(variable.get())
    return f, items.copy


@REFUSED.append
def array_of_objects() -> Program:
    items, held = [1.0], np.empty(1, object)
    held[0] = items

    def f(x: Any) -> Any:
        items.append(2.0)
        return x * len(held[0])
    return f, items.copy


@REFUSED.append
def cached_result() -> Program:
    items = [1.0]
    answer = functools.lru_cache(lambda n: items)

    def f(x: Any) -> Any:
        items.append(2.0)
        return x * len(answer(1))
    answer(1)
    return f, items.copy


@REFUSED.append
def other_name_of_the_memory() -> Program:
    numbers = np.ones(2)
    Bag.view = numbers[:1]  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        numbers[0] += 1.0
        return x if Bag.view[0] > 1 else -x  # type: ignore[attr-defined]
    return f, numbers.tolist


CALLS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "trace": lambda f: lambda x: tg.trace(f, x)[0],
    "grad": lambda f: lambda x: tg.grad(f, x, argnums=0)[0],
    "jvp": lambda f: lambda x: tg.jvp(f, (x,), (1.0,))[0],
    "compile": tg.compile,
    "value_and_grad": lambda f: (lambda g: lambda x: g(x)[0])(tg.value_and_grad(f, argnums=0)),
}


@pytest.mark.parametrize("mode", CALLS)
@pytest.mark.parametrize("program", SEEN, ids=range(len(SEEN)))
def test_a_second_way_leads_to_what_is_written(program: Callable[[], Program], mode: str) -> None:
    f, state = program()
    plain = [(f(1.5), state()) for _ in range(4)]
    f, state = program()
    called = CALLS[mode](f)
    assert [(called(1.5), state()) for _ in range(4)] == plain


@pytest.mark.parametrize("mode", CALLS)
@pytest.mark.parametrize("program", REFUSED, ids=range(len(REFUSED)))
def test_a_write_that_a_second_way_would_not_show_is_refused(program: Callable[[], Program], mode: str) -> None:
    f, state = program()
    before = state()
    with pytest.raises((tg.MutationError, tg.ArgumentError)) as info:  # a compiled function may refuse the tensor
        CALLS[mode](f)(1.5)
    assert info.value.try_ and (info.value.where is not None or isinstance(info.value, tg.ArgumentError))
    assert state() == before


def test_what_leads_to_a_thing_has_its_gradient() -> None:
    def program() -> Callable[[Any], Any]:
        held, numbers = {"a": 2.0}, np.array([1.0, 2.0])
        total, view, named = numbers.sum, held.values(), functools.partial(max, 0.0)
        named.scale = 3.0  # type: ignore[attr-defined]
        return lambda x: x * total() * sum(view) * named.scale  # type: ignore[attr-defined]
    value, (df, dx) = tg.grad(program(), 2.0)
    assert (value, dx) == (36.0, 18.0)
    assert df["view"] == {"a": 18.0} and df["total"].tolist() == [12.0, 12.0] and df["named"]["scale"] == 12.0
    assert tg.grad(lambda d, x: d["a"] * x, types.MappingProxyType({"a": 2.0}), 3.0) == (6.0, (None, {"a": 3.0}, 2.0))
    with pytest.raises(tg.MutationError, match="refers to numbers that the call is differentiated by"):
        items = [1.0, 2.0]
        rest = iter(items)
        tg.grad(lambda x: x * next(rest) + items[0], 2.0)


@pytest.mark.filterwarnings("ignore:.*is not compiled:tapegrad.RetraceWarning")
@pytest.mark.parametrize("way", ["append", "view", "state"])
def test_a_stored_array_is_the_one_that_is_written(way: str) -> None:
    def program() -> tuple[Callable[[Any], Any], Bag]:
        a = Bag(h=np.zeros(2), log=collections.deque(maxlen=3))

        def f(x: Any) -> Any:
            a.h += 1.0
            if way == "append":
                a.log.append(a.h)
            elif way == "view":
                a.log.append((a.h[:1], a.h[0]))
            else:
                a.last = a.h
            a.h[1] = a.h[1] * 2
            return x * a.h.sum()
        return f, a
    f, a = program()
    g, b = program()
    h, c = program()
    compiled = tg.compile(g)
    for _ in range(4):
        assert compiled(1.5) == f(1.5) == tg.gradient(h, 1.5)[0] * 1.5
        for other in (b, c):
            assert repr(other.log) == repr(a.log) and other.h.tolist() == a.h.tolist()
            assert way != "append" or all(x is other.h for x in other.log)
            assert way != "view" or all(x.base is other.h for x, _ in other.log)
            assert way != "state" or other.last is other.h
    d, e = program()
    tg.hessian(d)(1.5)
    assert way != "append" or e.log[0] is e.h


def test_a_global_log_holds_the_array_that_is_written(monkeypatch: Any) -> None:
    monkeypatch.setitem(globals(), "LOG", [])
    a = Bag(h=np.zeros(2))

    def f(x: Any) -> Any:
        a.h += x
        LOG.append(a.h)  # type: ignore[name-defined]  # noqa: F821
        return x * a.h.sum()
    tg.trace(f, 1.5)
    assert globals()["LOG"][0] is a.h and a.h.tolist() == [1.5, 1.5]


def test_no_traced_value_stays_in_an_array_of_objects() -> None:
    cells, held = np.empty(2, object), Bag(rows=np.empty(1, object))

    def f(x: Any) -> Any:
        cells[0], held.rows[0] = x * 2, [x * 3, np.array([None])]
        return x * x
    for call in CALLS.values():
        for _ in range(3):
            call(f)(2.0)
            assert type(cells[0]) is float and cells[0] == 4.0 and type(held.rows[0][0]) is float


def test_attributes_of_partials_and_of_arrays_of_a_class_are_written() -> None:
    class Marked(np.ndarray[Any, Any]):
        pass
    named, marked = functools.partial(max, 1), np.zeros(2).view(Marked)
    named.n = marked.n = 0  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        named.n += 1  # type: ignore[attr-defined]
        marked.n += 1  # type: ignore[attr-defined]
        return x * named.n  # type: ignore[attr-defined]
    assert [call(f)(1.0) for call in CALLS.values()] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert (named.n, marked.n) == (5, 5)  # type: ignore[attr-defined]
