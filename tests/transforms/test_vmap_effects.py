"""A batched function does to the world what a loop over its members does, whatever it writes to."""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import os
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

LOCAL, VARIABLE, KEY, NORM = threading.local(), contextvars.ContextVar("VARIABLE", default=0), "TAPEGRAD_TESTED", None


class Slotted:
    __slots__ = ("n",)


def counting(made: Callable[[], Any], step: Callable[[Any], Any], read: Callable[[Any], Any]) -> Any:
    def program() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
        held = made()

        def f(x: Any) -> Any:
            step(held)
            return x * read(held)
        return f, lambda: read(held)
    return program


def increased(x: Any, name: Any = "n") -> None:
    x[name] = x[name] + 1


def attribute(x: Any, name: str = "n") -> None:
    setattr(x, name, getattr(x, name, 0) + 1)


def added(x: Any) -> None:
    x += type(x.flat[0])(1) if x.dtype != bool else True


KEYS = weakref.WeakKeyDictionary[Any, int]()
PLACE = Slotted
STORES: dict[str, Any] = {
    "thread-local": counting(lambda: setattr(LOCAL, "n", 0) or LOCAL, attribute, lambda held: held.n),
    "context variable": counting(lambda: VARIABLE.set(0) and VARIABLE, lambda held: VARIABLE.set(VARIABLE.get() + 1),
                                 lambda held: VARIABLE.get()),
    "environment": counting(lambda: os.environ.update({KEY: "0"}),
                            lambda held: os.environ.update({KEY: str(int(os.environ[KEY]) + 1)}),
                            lambda held: int(os.environ[KEY])),
    "array.array": counting(lambda: array.array("d", [0.0]), lambda held: increased(held, 0), lambda held: held[0]),
    "longer array.array": counting(lambda: array.array("d"), lambda held: held.append(1.0), len),
    "ctypes": counting(lambda: ctypes.c_int(0), lambda held: attribute(held, "value"), lambda held: held.value),
    "records": counting(lambda: np.zeros(1, [("n", int)]), lambda held: increased(held["n"], 0),
                        lambda held: int(held["n"][0])),
    "array of records": counting(lambda: np.rec.array([(0,)], dtype=[("n", int)]), lambda held: increased(held.n, 0),
                                 lambda held: int(held.n[0])),
    "texts": counting(lambda: np.array(["", "longer"]), lambda held: held.__setitem__(0, str(held[0]) + "a"),
                      lambda held: len(str(held[0]))),
    "dates": counting(lambda: np.array(["2020-01-01"], "M8[D]"), lambda held: held.__setitem__(0, held[0] + np.timedelta64(1, "D")),
                      lambda held: int(held.astype(int)[0])),
    "objects": counting(lambda: np.array([0], object), lambda held: increased(held, 0), lambda held: held[0]),
    "UserDict": counting(lambda: collections.UserDict(n=0), increased, lambda held: held["n"]),
    "UserList": counting(lambda: collections.UserList([]), lambda held: held.append(1), len),
    "ChainMap": counting(lambda: collections.ChainMap({"n": 0}), increased, lambda held: held["n"]),
    "weak keys": counting(lambda: KEYS.update({PLACE: 0}) or KEYS, lambda held: increased(held, PLACE),
                          lambda held: held[PLACE]),
    "memoryview": counting(lambda: memoryview(bytearray(1)), lambda held: increased(held, 0), lambda held: held[0]),
    "read-only mapping": counting(lambda: types.MappingProxyType({"n": [0]}), lambda held: increased(held["n"], 0),
                                  lambda held: held["n"][0]),
    "error": counting(lambda: ValueError(), attribute, lambda held: getattr(held, "n", 0)),
    "slot": counting(Slotted, attribute, lambda held: getattr(held, "n", 0)),
    "tensor": counting(lambda: torch.zeros(1), lambda held: held.add_(1), lambda held: int(held.sum())),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("how", ["captured", "global"])
def test_each_member_writes(store: str, how: str) -> None:
    f, state = STORES[store]()
    before = state()
    if how == "global":
        namespace: dict[str, Any] = {"f": f}
        exec("def g(x): return f(x)", namespace)
        f = namespace["g"]
    value = tg.vmap(f)(np.array([1.0, 1.0, 1.0]))
    assert state() == before + 3 and value.tolist() == [before + 1, before + 2, before + 3]


def test_a_function_that_computes_alone_is_batched_in_one_trace() -> None:
    table = np.arange(3.0)
    traced = tg.trace(tg.vmap(lambda x: table[1] * x), np.ones(5))[1]
    assert [op.note for op in traced if op.kind == "call" and op.fn.__name__ == "multiply"] == ["batched over axis 0"]


def test_what_cannot_be_undone_inside_a_trace_is_refused() -> None:
    LOCAL.n = 0

    def f(x: Any) -> Any:
        LOCAL.n += 1
        return x * LOCAL.n
    with pytest.raises(tg.MutationError, match=r"vmap of f: it changes .*n.*cannot be undone"):
        tg.grad(lambda x: tg.vmap(f)(x).sum(), np.ones(2))


def seeds(x: Any) -> Any:
    np.random.seed(4)
    return x * np.random.rand() + x ** 2 * np.random.normal(x, 1.0)


def draws_and_seeds(x: Any) -> Any:
    before = np.random.rand()
    np.random.seed(4)
    return 0 * before + x * np.random.standard_normal(2).sum()


@pytest.mark.parametrize("f", [seeds, draws_and_seeds])
def test_members_that_seed_numpys_generator_draw_the_same(f: Any) -> None:
    xs = np.array([2.0, 1.6, 2.4])
    wanted = np.array([f(x) for x in xs])
    state = np.random.get_state()[1]
    fast, tape = tg.compile(tg.vmap(f)), tg.trace(tg.vmap(f), xs)[1]
    for _ in range(4):
        for batch in (tg.vmap(f), fast, tape.play):
            np.testing.assert_allclose(batch(xs), wanted)
            np.testing.assert_array_equal(np.random.get_state()[1], state)
    slopes = (np.array([f(x + 1e-6) for x in xs]) - np.array([f(x - 1e-6) for x in xs])) / 2e-6
    np.testing.assert_allclose(tg.gradient(lambda xs: tg.vmap(f)(xs).sum(), xs)[0], slopes, rtol=1e-6)


@pytest.mark.parametrize("draw", [np.random.permutation, np.random.choice, lambda x: np.random.gamma(x[1])])
def test_draws_with_arguments_of_a_batch_from_a_generator_that_is_seeded(draw: Any) -> None:
    def f(x: Any) -> Any:
        np.random.seed(4)
        return np.sum(draw(x) * x)
    xs = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(tg.vmap(f)(xs), [f(x) for x in xs])
