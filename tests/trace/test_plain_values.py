"""What can have no gradient is handed on as it is: the program may compare it by identity."""

from __future__ import annotations

import cmath
import collections
import ctypes
import dataclasses
import datetime
import decimal
import enum
import functools
import gc
import json
import math
import operator
import pickle
import runpy
import sys
import types
import warnings
from collections import namedtuple
from collections.abc import Callable
from datetime import timedelta as Days
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.errors import ArgumentError, ConcretizationError

TWO, THREE, LARGE = 2, 3, 100_000
THINGS = {
    "True": (True, lambda v: v is True), "False": (False, lambda v: v is False),
    "bool": (True, lambda v: type(v) is bool and issubclass(type(v), bool) and repr(v) == "True"),
    "np.True_": (np.True_, lambda v: v is np.True_), "None": (None, lambda v: v is None),
    "ellipsis": (..., lambda v: v is ...), "text": ("relu", lambda v: v == "relu"),
    "dtype": (np.dtype(float), lambda v: v == np.float64), "class": (float, lambda v: v is float),
    "ufunc": (np.tanh, lambda v: v is np.tanh), "math": (math.sin, lambda v: v is math.sin),
    "cmath": (cmath.exp, lambda v: v is cmath.exp), "constructor": (np.zeros, lambda v: v is np.zeros),
    "array": (np.array, lambda v: v is np.array), "reduction": (np.sum, lambda v: v is np.sum),
    "norm": (np.linalg.norm, lambda v: v is np.linalg.norm), "numpy": (np, lambda v: v is np),
    "integer": (2, lambda v: v is TWO), "not an integer": (2, lambda v: v is not THREE and operator.is_not(v, THREE)),
    "large integer": (LARGE, lambda v: v is LARGE), "float": (1.5, lambda v: v is not LARGE and v is not np.nan),
    "nan": (np.nan, lambda v: v is np.nan), "another nan": (float("nan"), lambda v: v is not np.nan),
    "one of many": (2, lambda v: any(v is each for each in (1, 2))), "operator": (2, lambda v: operator.is_(v, TWO)),
    "negative": (operator.neg, lambda v: v is operator.neg and v is not operator.pos),
    "linalg": (np.linalg, lambda v: v is np.linalg), "key": (np.tanh, lambda v: {np.tanh: True}[v]),
}


class Slots:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


@dataclasses.dataclass
class Data:
    v: object
    scale: float = 1.0


class Model:
    def __init__(self, v, asks):
        self.v, self.asks, self.rate = v, staticmethod(asks), 0.5

    def loss(self, x):
        return x if self.asks(self.v) else 2 * x


Named = namedtuple("Named", "v scale")


def _places(v, asks):
    """Yield how a program is handed a thing: a function and its arguments. It returns `x` if it sees the thing itself,
    `2 * x` otherwise.
    """
    def plainly(x, v):
        return x if asks(v) else 2 * x

    def with_default(x, v=v):
        return plainly(x, v)

    def with_keyword_default(x, *, v=v):
        return plainly(x, v)

    def of(read):
        return lambda x, held: plainly(x, read(held))

    class Class:
        held = (v,)

    class Member(enum.Enum):
        A = (v,)
    helper = types.ModuleType("helper")
    helper.v = v
    yield "position", plainly, (v,), {}
    yield "keyword", plainly, (), {"v": v}
    yield "closure", lambda x: plainly(x, v), (), {}
    yield "default", with_default, (), {}
    yield "keyword default", with_keyword_default, (), {}
    yield "partial", functools.partial(plainly, v=v), (), {}
    yield "partial's argument", functools.partial(lambda v, x: plainly(x, v), v), (), {}
    yield "partial among the arguments", lambda x, p: p(x), (functools.partial(plainly, v=v),), {}
    yield "attribute", Model(v, asks).loss, (), {}
    yield "captured module", lambda x: plainly(x, helper.v), (), {}
    yield "module", of(lambda held: held.v), (helper,), {}
    yield "class", lambda x: plainly(x, Class.held[0]), (), {}
    yield "member", of(lambda held: held.value[0]), (Member.A,), {}
    for name, held, read in [
        ("list", [v], lambda held: held[0]), ("tuple", (v, 1.0), lambda held: held[0]),
        ("dict", {"v": v, "w": 1.0}, lambda held: held["v"]), ("named tuple", Named(v, 1.0), lambda held: held.v),
        ("dataclass", Data(v), lambda held: held.v), ("slots", Slots(v), lambda held: held.v),
        ("namespace", types.SimpleNamespace(v=v, w=1.0), lambda held: held.v),
    ]:
        yield name, of(read), (held,), {}
        yield f"{name} by keyword", of(read), (), {"held": held}


@pytest.mark.parametrize("thing", THINGS)
def test_what_can_be_compared_by_identity_is_itself(thing):
    v, asks = THINGS[thing]
    seen = {name: tg.grad(f, 3.0, *args, **kwargs)[0] for name, f, args, kwargs in _places(v, asks)}
    assert seen == dict.fromkeys(seen, 3.0)


@pytest.mark.parametrize("thing", ["True", "False", "np.True_", "ufunc", "numpy", "integer", "not an integer", "float",
                                   "one of many", "operator"])
def test_in_every_mode(thing):
    v, asks = THINGS[thing]
    for name, f, args, kwargs in _places(v, asks):
        compiled = tg.value_and_grad(f, argnums=0, warmup=1)
        assert [compiled(3.0, *args, **kwargs) for _ in range(4)] == [(3.0, 1.0)] * 4, name
        assert tg.trace(f, 3.0, *args, **kwargs)[1].play(4.0, *args, **kwargs) == 4.0, name
        if not kwargs:
            assert tg.jvp(f, (3.0, *args), (1.0, *[None] * len(args))) == (3.0, 1.0), name
            assert tg.vmap(f, in_axes=(0, *[None] * len(args)))(np.array([3.0, 4.0]), *args).tolist() == [3.0, 4.0]


def test_a_compiled_function_compares_integers_by_identity():
    def loss(x, n, m):
        return x * x if n is m else x * 3 if n is not TWO else -x
    compiled = tg.value_and_grad(loss, argnums=0, warmup=1)
    for n, m in [(1, 1), (2, 2), (1, 2), (2, 1), (256, 256), (LARGE, 1), (1, 1)] * 3:
        assert compiled(2.0, n, m)[0] == loss(2.0, n, m)
    assert compiled.stats.hits >= 8


@pytest.mark.parametrize("v", [np.nan, LARGE, 2.5])
def test_a_tape_does_not_know_which_equal_numbers_are_one_object(v):
    def loss(x, a, b):
        return x * x if a is b else 3 * x
    compiled = tg.compile(loss, warmup=1)
    other = type(v)(str(v))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        assert [compiled(2.0, v, b) for b in (v, other, v, other, v, 1)] == [4.0, 6.0, 4.0, 6.0, 4.0, 6.0]
    for b in (v, other):
        assert tg.vmap(loss, in_axes=(0, None, None))(np.array([2.0]), v, b) == [loss(2.0, v, b)]
        with pytest.raises(tg.GuardError, match=r"compares equal numbers.* by `is`"):
            tg.trace(loss, 2.0, v, b)[1].play(2.0, v, b)


def test_a_compiled_function_keeps_a_tape_for_each_bool():
    def loss(x, flag):
        return x * x if flag is True else 3 * x
    compiled = tg.value_and_grad(loss, argnums=0, warmup=1)
    for flag in [True, False] * 4:
        assert compiled(2.0, flag) == ((4.0, 4.0) if flag else (6.0, 3.0))
    assert compiled.stats.hits >= 4
    with pytest.raises(ArgumentError, match="recorded True, given False"):
        tg.trace(loss, 2.0, True)[1].play(2.0, False)


def test_a_bool_has_no_gradient_and_no_tangent():
    assert tg.grad(lambda x, flags: x * x, 2.0, {"a": True, "b": 1.0}) == (4.0, (None, 4.0, {"a": None, "b": 0.0}))
    with pytest.raises(ArgumentError, match="has no tangent"):
        tg.jvp(lambda x, flag: x, (2.0, True), (1.0, 1.0))


def test_the_bools_of_a_batch_share_a_tape():
    flags = np.array([True, False, True])
    y = tg.vmap(lambda x, flag: x * x if flag else -x)(np.array([1.0, 2.0, 3.0]), flags)
    assert y.tolist() == [1.0, -2.0, 9.0]
    y = tg.vmap(lambda x, p: np.where(p["flag"], x, -x))(np.array([1.0, 2.0, 3.0]), {"flag": flags})
    assert y.tolist() == [1.0, -2.0, 3.0]


@pytest.mark.parametrize("compare", [
    lambda x: x > 0, lambda x: x == 2.0, lambda x: x != 1, lambda x: (x > 0) & (x < 5), lambda x: math.isfinite(x),
    lambda x: math.isclose(x, 2.0), lambda x: (x, 1) <= (x, 2), lambda x: max(x > 0, x > 1), lambda x: x.is_integer(),
])
def test_a_comparison_of_numbers_of_pythons_is_a_bool(compare):
    def f(x):
        flag = compare(x)
        return x * x if flag is True and type(flag) is bool and repr(flag) == "True" else -x
    assert tg.grad(f, 2.0) == (4.0, (None, 4.0))
    assert tg.jvp(f, (2.0,), (1.0,)) == (4.0, 4.0)
    compiled = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in [2.0, 2.0, 2.0, -1.5, -1.5, -1.5, 2.0]:
        assert compiled(x) == tg.value_and_grad(f, argnums=0)(x) and compiled(x)[0] == f(x)
    assert tg.vmap(f)(np.array([2.0, -1.5, 2.0])).shape == (3,)  # of NumPy's, a traced one


def test_a_number_times_a_comparison_has_a_tape_for_each_side():
    compiled = tg.value_and_grad(lambda x: x * x * (x > 0) + (x < 1), argnums=0, warmup=1)
    assert [compiled(x) for x in (2.0, -1.0, 2.0, -1.0, 2.0, 0.5)] == [
        (4.0, 4.0), (1.0, 0.0), (4.0, 4.0), (1.0, 0.0), (4.0, 4.0), (1.25, 1.0)]
    with pytest.raises(tg.GuardError):
        tg.trace(lambda x: x * (x > 0), 2.0)[1].play(-2.0)


# -- captured numbers and integers that are asked for as plain ones

X = np.array([1.0, 2.0, 3.0])
TABLE = {3: 2.0}
USES = {
    "norm": lambda x, p: np.linalg.norm(x, ord=p), "float": lambda x, p: (x * float(p)).sum(),
    "float32": lambda x, p: (x * np.float32(p)).sum(), "key": lambda x, p: (x * {3: 2.0}[p]).sum(),
    "get": lambda x, p: (x * TABLE.get(p)).sum(), "membership": lambda x, p: x.sum() if p in {3} else -x.sum(),
    "twice": lambda x, p: (np.linalg.norm(x, ord=p) * p), "derived": lambda x, p: np.linalg.norm(x, ord=2 * p),
}
WHOLE = {"int8": lambda x, n: (x * np.int8(n)).sum(), "bit_length": lambda x, n: x.sum() * n.bit_length(),
         "text": lambda x, n: x.sum() if repr(n) == "3" else -x.sum(), "range": lambda x, n: sum(x[i] for i in range(n)),
         "axis": lambda x, n: x.reshape(1, 1, 1, 3).sum(axis=n), "round": lambda x, n: np.round(x / 3, n).sum() + x.sum()}


class Holder:
    def __init__(self, p, use):
        self.p, self.use = p, staticmethod(use)

    def loss(self, x):
        return self.use(x, self.p)


def _capturing(use, p):
    return lambda x: use(x, p)


@pytest.mark.parametrize("use", USES)
def test_a_captured_number_that_is_used_as_a_plain_one(use):
    use, p = USES[use], 3.0
    f, g = _capturing(use, p), Holder(p, use).loss
    value, dx = use(X, p), tg.gradient(lambda x: use(x, 3.0), X)[0]
    for fn, df in [(f, {"p": None}), (g, None)]:
        y, (dfn, found) = tg.grad(fn, X)
        assert y == value and np.allclose(found, dx)
        assert dfn["p"] is None if df else dfn.p is None
        assert np.allclose(tg.gradient(fn, X)[0], dx)
        assert np.allclose(tg.jvp(fn, (X,), (X,))[1], X @ dx)
        assert tg.trace(fn, X)[1].play(X) == value
        y, (dfn, found) = tg.gradtape(fn, X).play(X)
        assert (dfn["p"] if df else dfn.p) is None and np.allclose(found, dx)
        assert np.allclose(tg.pullback(fn, X)[1](1.0)[1], dx)
        assert np.isfinite(tg.hessian(fn)(X)).all()
        assert np.allclose(tg.vmap(fn)(np.stack([X, X])), value)
    holder = Holder(p, use)
    compiled = tg.value_and_grad(holder.loss, argnums=None, warmup=1)
    for p in [3.0, 3.0, 3.0, 3.0]:
        holder.p = p
        y, (dfn, found) = compiled(X)
        assert y == value and dfn.p is None and np.allclose(found, dx)


def test_a_compiled_function_sees_another_option():
    holder = Holder(3.0, USES["twice"])
    compiled = tg.value_and_grad(holder.loss, argnums=None, warmup=1)
    for p in [3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 3.0]:
        holder.p = p
        y, (dfn, found) = compiled(X)
        assert dfn.p is None and np.allclose(y, p * np.linalg.norm(X, ord=p))
        assert np.allclose(found, p * tg.gradient(lambda x: np.linalg.norm(x, ord=4.0 if holder.p == 4.0 else 3.0), X)[0])


@pytest.mark.parametrize("use", [*USES, *WHOLE])
def test_an_integer_that_is_used_as_a_plain_one(use):
    use = {**USES, **WHOLE}[use]
    value = use(X, 3)
    for n in (3, np.int64(3)) if use not in (WHOLE["bit_length"], WHOLE["text"]) else (3,):
        y, (_, dx, dn) = tg.grad(use, X, n)
        assert y == value and not dn
        assert tg.grad(use, X, 3)[1][1].tolist() == tg.gradient(lambda x: use(x, 3), X)[0].tolist() == dx.tolist()
        assert tg.grad(_capturing(use, n), X)[0] == value
        assert tg.trace(use, X, n)[1].play(X, n) == value


def test_the_gradient_that_is_given_up_is_no_partial_sum():
    assert tg.grad(USES["twice"], X, 3)[1][2] is None
    with pytest.raises(ArgumentError, match="n is used as a plain number"):
        tg.jvp(lambda x, n: USES["twice"](x, n), (X, 3), (X, 1.0))


def test_an_argument_that_is_a_float_is_refused_as_a_plain_one():
    with pytest.raises(ConcretizationError, match="plain float"):
        tg.grad(USES["norm"], X, 3.0)
    with pytest.raises(ConcretizationError, match="plain float"):
        tg.grad(lambda p: tg.grad(lambda x: np.linalg.norm(x, ord=p), X)[0], 3.0)
    with pytest.raises(ConcretizationError, match="was called, as by a dict"):
        tg.grad(_capturing(lambda x, p: functools.lru_cache(lambda p: p)(p) * x.sum(), 3.0), X)


def test_a_loaded_tape_knows_what_was_given_up(tmp_path):
    holder = Holder(3.0, USES["twice"])
    tg.trace(_capturing(USES["twice"], 3.0), X)[1].save(tmp_path / "tape.json")
    tape = tg.gradtape(tg.load(tmp_path / "tape.json"))
    _, (dfn, dx) = tape.play(X)
    assert dfn["p"] is None and np.allclose(dx, tg.gradient(holder.loss, X)[0])


TAKES_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "Decimal": lambda x, n: x * float(Decimal(n)), "Decimal of digits": lambda x, n: x * float(Decimal((0, (1, n), -1))),
    "by its module": lambda x, n: x * float(decimal.Decimal(2 * n)), "by another name": lambda x, n: x * Days(n).days,
    "timedelta": lambda x, n: x * datetime.timedelta(days=n, hours=1).total_seconds(),
    "times a timedelta": lambda x, n: x * (datetime.timedelta(days=30) / n).days * (n * datetime.timedelta(1)).days,
    "NumPy's timedelta": lambda x, n: x * int(np.timedelta64(n, "D") / np.timedelta64(1, "h")),
    "json": lambda x, n: x * len(json.dumps({"n": n, "l": [n, (10 * n, "a")]})), "modulus": lambda x, n: x * pow(n, 2, 5) * pow(2, n, 7),
    "maxlen": lambda x, n: sum(collections.deque([x, 2 * x, 4 * x, 8 * x, 16 * x, 32 * x, 64 * x, 128 * x], maxlen=n)),
    "maxlen by place": lambda x, n: sum(collections.deque([x, 2 * x, 4 * x, 8 * x, 16 * x, 32 * x], n)),
    "pickle": lambda x, n: x * pickle.loads(pickle.dumps({"n": n}))["n"], "ctypes": lambda x, n: x * len((ctypes.c_int * n)()),
    "whole by computation": lambda x, n: x * Days(days=round(2.4 * x) + n).days, "draw": lambda x, n: x * np.random.default_rng(0).binomial(n, 0.5),
}


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")  # of pickle
@pytest.mark.parametrize("row", TAKES_PLAIN)
def test_what_takes_only_plain_numbers_is_given_those_that_have_no_gradient(row: str) -> None:
    f = TAKES_PLAIN[row]
    step = tg.compile(tg.value_and_grad(f, argnums=0), warmup=1)
    for n in (5, 5, 7, 5, 3):
        slope = (f(2.0 + 1e-7, n) - f(2.0 - 1e-7, n)) / 2e-7
        captured = functools.partial(f, n=n)
        for found in (step(2.0, n), tg.grad(captured, 2.0), tg.jvp(captured, (2.0,), (1.0,)), tg.grad(f, 2.0, n, argnums=0)):
            value, dx = found if not isinstance(found[1], tuple) else (found[0], found[1][1])
            assert (value, dx) == (f(2.0, n), pytest.approx(slope, rel=1e-6))
    as_index = row == "ctypes" and sys.version_info >= (3, 13)  # of which the gradient is zero
    assert tg.grad(f, 2.0, 5)[1][2] == (0.0 if as_index else None)
    with pytest.raises(tg.TapeError, match=r"(?s)test_plain_values.py.*try: |replay"):
        tg.trace(f, 2.0, 5)[1].play(2.0, 7)
    with pytest.raises((tg.TapeError, TypeError, ValueError)):
        tg.grad(lambda x: f(x, x), 2.0)


@dataclasses.dataclass
class Shown:
    a: Any


TEXTS: list[Callable[[Any], Any]] = [
    lambda x: x * len(repr(x)), lambda x: x * len(f"{x!r}"), lambda x: x * len("{!r}".format(*[x])), lambda x: x * len(str([x])), lambda x: x * len(str({"l": (x,)})),
    lambda x: x * len(str(Shown(x))), lambda x: x * len(str(KeyError(x))), lambda x: {repr(x): x}[repr(x)], lambda x: x * len(str(x)), lambda x: x * len(f"{x}"),
    lambda x: x * 2 if type(str(x)) is str else x * 3]


@pytest.mark.parametrize("x", [1.5, np.float64(0.25), np.array([1.0, 2.5]), torch.tensor(1.5)])
@pytest.mark.parametrize("row", range(len(TEXTS)))
def test_texts_are_those_of_the_plain_program(row: int, x: Any) -> None:
    f, backend = TEXTS[row], "torch" if isinstance(x, torch.Tensor) else "numpy"
    step = tg.compile(f, warmup=1, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        for found in (tg.trace(f, x)[0], tg.trace(f, x)[1].result.val, *[step(x) for _ in range(3)]):
            assert np.array_equal(found, f(x))
        y = x * 100 + 23
        assert np.array_equal(step(y), f(y))


FOUR = (4.0, 4.0)
ASKS_THE_PROXY: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "id": (lambda x, n: id(n) == id(1), (1,)), "a list of nan": (lambda x, v: [v] == [np.nan], (np.nan,)), "a tuple": (lambda x, t: t is FOUR, (FOUR,)),
    "type in a text": (lambda x: eval("type(x) is float"), ()), "is in a text": (lambda x, n: eval("n is TWO"), (2,)),
    "a file loaded by its path": (lambda x: runpy.run_path(str(Path(__file__).parent / "asks_for_types.py"))["is_float"](x), ()),
    "a function that pickle finds": (lambda x: pickle.loads(b"cbuiltins\ntype\n.")(x) is float, ()),
    "an operator by a computed name": (lambda x: getattr(1.0, "__l" + "t__")(x) is True, ()),
    "an operator by methodcaller": (lambda x: operator.methodcaller("__lt__", x)(1.0) is True, ()),
    "size": (lambda x, n: sys.getsizeof(n) == sys.getsizeof(1), (1,)), "collector": (lambda x: gc.isenabled(), ()),
}


@pytest.mark.parametrize("row", ASKS_THE_PROXY)
def test_what_a_program_can_be_told_otherwise_is_what_docs_limits_lists(row: str) -> None:
    asks, args = ASKS_THE_PROXY[row]
    assert asks(2.0, *args)
    assert tg.grad(lambda x, *args: x if asks(x, *args) else 3 * x, 2.0, *args, argnums=0)[0] == 6.0  # where this is 2.0, its line in the docs goes


def asking() -> Any:
    x = yield
    while True:
        x = yield type(x) is float


@pytest.mark.parametrize("way", ["captured", "argument", "in an argument", "in a list", "its method"])
def test_a_generator_that_began_before_and_asks_for_types_is_refused(way: str) -> None:
    found = asking()
    next(found)
    held, send = [found], found.send
    with pytest.raises(ConcretizationError, match="a generator that was started before the trace"):
        if "argument" in way:
            tg.grad(lambda x, g: x if g[0].send(x) else 3 * x, 2.0, (found,) if way == "argument" else held, argnums=0)
        else:
            tg.grad({"captured": lambda x: x if found.send(x) else 3 * x, "in a list": lambda x: x if held[0].send(x) else 3 * x,
                     "its method": lambda x: x if send(x) else 3 * x}[way], 2.0)


def test_what_a_tape_keeps_of_its_own_run_is_what_docs_limits_lists() -> None:
    def by_text(x: Any) -> Any:
        return x * x if f"{x:.1f}" == "1.5" else x**3

    tape, kept = tg.trace(by_text, 1.5)[1], tg.trace(lambda x: ValueError(x), 1.5)[1]
    assert tape.play(2.0) == 4.0 and by_text(2.0) == 8.0
    with pytest.raises(tg.GuardError, match="contains traced values"):
        kept.play(2.0)
    step = tg.compile(by_text, warmup=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        assert [step(x) for x in (1.5, 1.5, 2.0, 3.0)] == [2.25, 2.25, 8.0, 27.0]
    with torch.no_grad():
        assert tg.trace(lambda x: x * torch.is_grad_enabled(), 2.0)[0] == 2.0
    assert tg.trace(lambda x: x * (torch.no_grad()(torch.is_grad_enabled)() + 3.0), 2.0)[0] == 6.0


@pytest.mark.parametrize("holds", [lambda v: v in [1.0, np.nan], lambda v: np.nan in (v,), lambda v: [v, 1.0].index(np.nan) == 0], ids=["in", "of", "index"])
def test_a_container_that_knows_nan_by_identity_is_refused(holds):
    for ask in (lambda f, v: tg.grad(f, 2.0, v, argnums=0), lambda f, v: tg.hessian(lambda x: f(x, v))(2.0),
                lambda f, v: tg.value_and_grad(f, argnums=0, warmup=1)(2.0, v)):
        with pytest.raises(ConcretizationError, match="searched for nan, which is compared by identity"):
            ask(lambda x, v: x * x if holds(v) else x, np.nan)
    assert tg.grad(lambda x, v: x * x if v == np.nan or np.nan != v != v else x, 2.0, np.nan, argnums=0) == (4.0, 4.0)


def test_a_comparison_is_a_bool_in_traces_within_traces():
    def loss(x):
        return x ** 3 if (x > 0) is True else -x
    assert tg.hessian(loss)(2.0) == 12.0 == tg.hvp(loss)(2.0, 1.0) == tg.taylor(loss, 2.0, 2)[2] * 2
    assert tg.grad(lambda x: tg.gradient(lambda y: loss(x * y), 1.0)[0], 2.0)[1][1] == 36.0
    assert [tg.compile(tg.hessian(loss), warmup=1)(x) for x in (2.0, 1.0, -1.0, 3.0)] == [12.0, 6.0, 0.0, 18.0]


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")
def test_a_cached_function_of_a_traced_number_runs_in_each_trace() -> None:
    ran: list[int] = []

    @functools.lru_cache
    def load(n: int) -> int:
        ran.append(n)
        return 2 * n
    assert load(3) == 6 and tg.grad(lambda x, n: x * load(n), 1.0, 3)[0] == 6.0
    assert len(ran) == 2
