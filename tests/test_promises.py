"""Promises that were once broken, and programs made at random: value, gradient and replay are plain NumPy's, or an error says why not."""

from __future__ import annotations

import collections
import copy
import enum
import math
import random
import types
from collections.abc import Callable, Hashable, Iterable, Sized
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.testing import check_grads, contract

X = np.linspace(0.1, 1.0, 6)
A = np.arange(16.0).reshape(4, 4) + 0.5
F = np.asfortranarray(A)
STRIDED = np.repeat(A, 2, axis=1)[:, :4]  # a part of a larger array: reshaping it copies


def kept(x: Any) -> Any:
    """Copy an argument as it lies in memory."""
    if type(x) is np.ndarray and x.base is not None:
        flat = np.empty(x.base.nbytes, np.uint8)
        y = np.ndarray(x.shape, x.dtype, flat.data, 0, x.strides)
        y[...] = x
        return y
    return x.copy(order="K") if isinstance(x, np.ndarray) else copy.deepcopy(x)


def agrees(f: Callable[..., Any], *args: Any, at: tuple[Any, ...] = ()) -> None:
    """Check the value, the gradient and replays at the same point, and at others: there, a replay may refuse."""
    before = [kept(x) for x in args]
    value, tape = tg.trace(f, *args)
    same(value, f(*map(kept, args)))
    same(tape.check().play(*map(kept, args)), value)

    def g(*xs: Any) -> Any:
        return contract(f(*xs))
    swept, written = tg.grad(g, *args), tg.gradtape(g, *args).check()
    flat = tg.primitivize(written).check()
    for again in (written, written, flat):
        same(again.play(*map(kept, args)), swept)
    for other in at:
        others = other if isinstance(other, tuple) else (other,)
        for replayed, plain in ((tape, f), (written, lambda *xs: tg.grad(g, *xs)), (flat, lambda *xs: tg.grad(g, *xs))):
            try:
                found = replayed.play(*map(kept, others))
            except (tg.GuardError, tg.ArgumentError):
                continue
            same(found, plain(*map(kept, others)))
    for x, y in zip(args, before):
        same(x, y)


def same(a: Any, b: Any) -> None:
    """Check that two results agree: numbers closely, since a replay may call NumPy's sine for math's."""
    if isinstance(b, (tuple, list)):
        assert len(a) == len(b)
        for p, q in zip(a, b):
            same(p, q)
    elif isinstance(b, (np.ndarray, np.generic, float, int, complex)):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)


# -- values: an alias is what it is in NumPy

def _program(text: str) -> Callable[[Any], Any]:
    namespace: dict[str, Any] = {"np": np, "copy": copy}
    exec("def f(x):\n" + "".join(f"    {line.strip()}\n" for line in text.split(";")) + "    return x * x\n", namespace)
    return namespace["f"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("x", [A, F, STRIDED], ids=["C", "F", "strided"])
@pytest.mark.parametrize("text", [
    "v = x.astype(float, copy=False); v[0] = 2 * x[1]", "v = np.astype(x, float, copy=False); v[0] = 2 * x[1]", "v = x.conj(); v[0] = 2 * x[1]",
    "v = np.ascontiguousarray(x); v[0] *= 3", "v = np.asfortranarray(x); v[0] *= 3", "v = np.asarray(x, order='F'); v[0] = 2",
    "v = copy.copy(x); v[0] = 2", "v = copy.deepcopy([x])[0]; v[0] = 2; x = x + v", "np.nan_to_num(x, copy=False); x[0] *= 2",
    "v = x.T.copy(); v.reshape(-1)[0] = 5 * x[1, 1]; x = x * v", "v = np.array(x, order='C'); v.ravel()[0] = 5; x = x * v",
    "v = x.astype(float, order='C'); v.ravel()[0] = 5; x = x * v", "v = np.full_like(x, x[0, 0]); v.ravel()[0] = 5; x = x * v",
    "v = np.reshape(x, -1, copy=True); v[0] = 5 * x[1, 1]", "a = np.zeros((4, 4)); a[...] = x; a[:, :2].reshape(-1)[0] = 7; x = x * a",
    "x[0, 0] = x[1, 1]; x.reshape(-1)[1] = 9 * x[2, 2]", "v = x[:, 0].ravel(); v[0] = 5 * x[1, 1]", "x += np.arange(16.0).reshape(4, 4); x.ravel()[0] = 5",
    "v = np.zeros((4, 4)); v[...] = x; w = v[:, ::2][0]; np.ascontiguousarray(w)[0] = 3; x = x * v",
])
def test_a_view_is_a_view_and_a_copy_a_copy(text: str, x: Any) -> None:
    agrees(_program(text), x, at=(A, F, STRIDED))


@pytest.mark.parametrize("text", ["y = x; x += 1; x += 1; x = x * y", "y = x; x += 1; x[...] = x * 3; x[()] += 2; x = x * y",
                                  "y = np.zeros(()); np.add(y, x, out=y); z = y; np.multiply(y, x, out=y); x = z * y"])
def test_an_array_without_axes_is_written_in_place(text: str) -> None:
    agrees(_program(text), np.array(2.0), at=(2.0, np.array(3.0)))


class Mode(enum.Enum):
    FAST, SLOW = 1, 2


class Level(enum.IntEnum):
    LOW, HIGH = 1, 2


@pytest.mark.parametrize("x", [2.0, X, np.float64(2.0)], ids=["number", "array", "scalar"])
@pytest.mark.parametrize("asks", [
    lambda x: isinstance(x, Iterable), lambda x: isinstance(x, Sized), lambda x: isinstance(x, Hashable), lambda x: hasattr(x, "__len__"),
    lambda x: hasattr(x, "shape"), lambda x: hasattr(x, "nothing"), np.iterable, np.isscalar, callable,
])
def test_what_a_program_asks_of_a_value(asks: Callable[[Any], bool], x: Any) -> None:
    agrees(lambda x: x * 2 if asks(x) else x * 3, x, at=(X if np.ndim(x) == 0 else 2.0,))


def test_members_of_an_enumeration_are_one_of_a_kind() -> None:
    assert tg.gradient(lambda m, x: x * 2 if m is Mode.FAST else x * 3, Mode.FAST, 2.0)[1] == 2.0
    _, tape = tg.trace(lambda m, x: x * 2 if m is Level.LOW else x * 3, Level.LOW, 2.0)
    assert tape.play(Level.LOW, 5.0) == 10.0
    with pytest.raises(tg.ArgumentError):
        tape.play(Level.HIGH, 5.0)


# -- gradients: of what is shared, of what is overwritten

BUFFER = np.zeros(6)
LOCKED = BUFFER.view()
LOCKED.flags.writeable = False
WIDE = np.broadcast_to(BUFFER, (2, 6))


@pytest.mark.parametrize("read", [lambda: np.asarray(BUFFER), lambda: LOCKED, lambda: WIDE, lambda: BUFFER[::-1]],
                         ids=["asarray", "read-only", "broadcast", "reversed"])
def test_a_constant_that_is_overwritten_later(read: Callable[[], Any]) -> None:
    def f(x: Any) -> Any:
        y: Any = 0.0
        for i in range(3):
            BUFFER[:] = i
            y = y + x * read()
        return y
    agrees(f, X)


def test_asarray_of_an_array_made_outside_is_that_array() -> None:
    def f(x: Any) -> Any:
        BUFFER[:] = 1.0
        np.asarray(BUFFER)[0] = 5.0
        return BUFFER * x
    agrees(f, X)


def test_an_index_that_is_overwritten_after_its_use() -> None:
    def written(x: Any) -> Any:
        at = np.zeros(2, int)
        at[0] = 1
        y = np.zeros(3)
        y[at] = x[:2]
        at[:] = 2
        return y

    def read(x: Any) -> Any:
        at, mask = np.zeros(2, int), np.zeros(6, bool)
        at[0], mask[1] = 1, True
        y = x[at] * 2 + x[mask].sum()
        at[:], mask[2] = 3, True
        return y * x[mask].sum()
    agrees(written, X)
    agrees(read, X)


def test_a_nested_gradient_through_a_traced_mask() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        part = y[y > 0.4]
        y[:] = y * part.sum()
        return y.sum() * part.mean()
    check_grads(f, X, order=2)
    agrees(f, X)


def test_what_the_caller_does_before_the_seed_comes() -> None:
    x, seed = np.ones(3), np.ones(3)
    _, back = tg.pullback(lambda x: x * x, x)
    tape = tg.gradtape(np.square, x, seed=seed)
    x[:] = seed[:] = 0.0
    np.testing.assert_array_equal(back(np.ones(3))[1], [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(tape.play(np.ones(3))[1][1], [2.0, 2.0, 2.0])


def test_seeds_of_an_output_that_occurs_twice() -> None:
    def f(x: Any) -> Any:
        part = [2 * x]
        return part, part
    assert tg.gradient(f, 3.0, seed=([1.0], [2.0])) == (6.0,)
    one = [1.0]
    assert tg.gradient(f, 3.0, seed=(one, one)) == (4.0,)
    with pytest.raises(tg.ArgumentError):
        tg.grad(lambda x: x, 3.0, seed=None)


class Bag(dict):  # type: ignore[type-arg]
    def __getattr__(self, name: str) -> Any:
        return self[name]


class Row(list):  # type: ignore[type-arg]
    pass


class Secret:
    __slots__ = ("__w",)

    def __init__(self) -> None:
        self.__w = 2.0

    def f(self, x: Any) -> Any:
        return self.__w * x


def test_containers_of_every_kind_have_gradients() -> None:
    bag, tally = Bag(w=2.0, name="bag"), collections.Counter(a=2)
    assert tg.gradient(lambda b, x: b.w * x, bag, 3.0) == (Bag(w=3.0, name=None), 2.0)
    assert tg.gradient(lambda r, x: r[0] * x, Row([2.0]), 3.0) == (Row([3.0]), 2.0)
    assert tg.gradient(lambda n: n.a * n.b, types.SimpleNamespace(a=2.0, b=3.0)) == (types.SimpleNamespace(a=3.0, b=2.0),)
    assert tg.gradient(lambda s, x: s.f(x), Secret(), 3.0)[1] == 2.0

    def count(tally: Any, x: Any) -> Any:
        tally["a"] += x
        return tally["a"] * x
    assert tg.gradient(count, tally, 2.0) == (collections.Counter(a=2.0), 6.0) and tally == {"a": 4.0}  # a count is no parameter
    _, tape = tg.trace(lambda b: b.w * b.w, bag)
    bag["w"] = 5.0
    assert tape.play(bag) == 25.0


def test_functions_that_share_a_variable() -> None:
    total, a = 0.0, 3.0

    def add(v: Any) -> None:
        nonlocal total
        total = total + v

    def scale(y: Any) -> Any:
        return a * y

    def f(x: Any) -> Any:
        add(x * x)
        add(x)
        return total
    assert tg.grad(f, 2.0)[1][1] == 5.0 and total == 0.0  # which the call is differentiated by
    assert tg.trace(f, 2.0)[0] == 6.0 and total == 6.0
    assert tg.grad(lambda x: scale(x) * a, 2.0) == (18.0, ({"a": 12.0, "scale": {"a": 12.0}}, 9.0))


def test_a_list_that_two_arguments_share() -> None:
    def f(a: Any, b: Any) -> Any:
        a[0] = a[0] * 2
        return a[0] * b[0]
    shared = [3.0]
    with pytest.raises(tg.MutationError, match="share"):
        tg.grad(f, shared, shared)
    assert tg.gradient(lambda a, b: a[0] * b[0], shared, shared) == ([3.0], [3.0])


class Crooked(np.ndarray):  # type: ignore[type-arg]
    def __mul__(self, other: Any) -> Any:
        return self + other


def test_arrays_whose_operators_mean_something_else() -> None:
    masked, crooked = np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([3.0, 4.0]).view(Crooked)
    with pytest.raises(tg.UnknownFunction, match="operators"):
        tg.grad(lambda y: np.sum(y) + np.ma.masked, np.ones(2))
    for f, arg, dx in ((lambda y: np.sum(y * y), masked, [2.0, 0.0]), (lambda y: np.sum(y * masked), np.ones(2), [1.0, 0.0]),
                       (lambda y: np.sum(y * y), crooked, 2.0), (lambda y: np.sum(crooked * y), np.ones(2), 1.0),
                       (lambda y: np.sum(y * crooked), np.ones(2), [3.0, 4.0])):
        value, (_, found) = tg.grad(f, arg, captured=False)
        assert value == f(arg) and np.array_equal(found, np.broadcast_to(dx, 2))


def test_a_table_looked_up_by_a_traced_number() -> None:
    with pytest.raises(tg.ConcretizationError, match="hash"):
        tg.grad(lambda x: {2.0: 4.0}[x] * x, 2.0)
    assert tg.gradient(lambda n, x: {1: x, 3: 2 * x}[n], 3, 2.0)[1] == 2.0


# -- replays: as the program would run, or not at all


def test_keyword_arguments_in_any_order() -> None:
    _, tape = tg.trace(lambda x, *, a, b: x * a - b, 2.0, a=3.0, b=5.0)
    assert tape.play(2.0, b=5.0, a=3.0) == 1.0


def test_a_flat_tape_draws_afresh() -> None:
    def f(x: Any) -> Any:
        return (x * np.random.rand(3) + np.random.default_rng(7).normal(size=3)).sum()
    flat = tg.primitivize(tg.gradtape(f, np.ones(3)))
    np.random.seed(0)
    first = flat.play(np.ones(3))
    assert first[0] != flat.play(np.ones(3))[0]
    np.random.seed(0)
    same(tg.grad(f, np.ones(3)), first)


def test_a_replay_with_another_function_or_another_nesting() -> None:
    a = 2.0
    _, tape = tg.trace(lambda fn, x: fn(x), lambda y: a * y, 3.0)
    with pytest.raises(tg.ArgumentError):
        tape.play(lambda y: a + y, 3.0)
    row = [1.0]
    for given, other in (([row, row], [[2.0], [3.0]]), ([[2.0], [3.0]], [row, row])):
        _, tape = tg.trace(lambda rows: rows[0][0] * rows[1][0], given)
        with pytest.raises(tg.ArgumentError):
            tape.play(other)
    ring = types.SimpleNamespace(w=2.0)
    ring.self = ring
    assert tg.trace(lambda r: r.self.w * r.w, ring)[1].play(ring) == 4.0


def _catch(error: type[Exception], run: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def f(*args: Any) -> Any:
        try:
            return run(*args)
        except error:
            return otherwise(*args)
    return f


@pytest.mark.parametrize(("f", "raises", "runs"), [
    (_catch(ZeroDivisionError, lambda x: 1 / x, lambda x: 5 * x), 0.0, 4.0),
    (_catch(ValueError, lambda x: math.sqrt(x) * x, lambda x: x * 2), -1.0, 4.0),
    (_catch(IndexError, lambda x: x[4] * 2, lambda x: x[0] * 3), np.ones(3), X),
    (_catch(ValueError, lambda x: x + np.ones(3), lambda x: x * 3), X, np.ones(3)),
    (_catch(ValueError, lambda x: x.reshape(2, 3), lambda x: x * 3), np.ones(3), X),
    (_catch(np.linalg.LinAlgError, lambda x: np.linalg.cholesky(x), lambda x: np.linalg.cholesky(x + 10 * np.eye(2))), -np.eye(2), np.eye(2)),
])
def test_an_error_that_the_program_caught(f: Callable[..., Any], raises: Any, runs: Any) -> None:
    agrees(f, raises, at=(runs,))
    with pytest.raises(tg.GuardError, match="Error from"):
        tg.trace(f, raises)[1].play(runs)


def test_a_number_where_an_array_was() -> None:
    def f(x: Any) -> Any:
        y = x
        x += 1
        return x * y
    for x, other in ((2.0, X), (X, 2.0), (np.array(2.0), 2.0)):
        with pytest.raises(tg.GuardError, match="recorded"):
            tg.trace(f, x)[1].play(other)


def test_a_number_of_maths_stays_one() -> None:
    def f(x: Any, s: Any) -> Any:
        return (x * math.sqrt(s)).sum() + np.float32(1.5) * math.log(s)
    x = np.ones(3, np.float32)
    tapes = tg.trace(f, x, 2.0)[1], tg.gradtape(f, x, 2.0), tg.primitivize(tg.gradtape(f, x, 2.0))
    assert [type(v[0] if isinstance(v, tuple) else v) for v in (tape.play(x, 3.0) for tape in tapes)] == [np.float32] * 3
    for tape in tapes:
        for given in (-1.0, np.float64(-1.0)):
            with pytest.raises(ValueError, match="math domain"):
                tape.play(x, given)


def test_of_nothing_nobody_knows_what_is_shared() -> None:
    def f(x: Any) -> Any:
        tail = x[5:]
        tail += 1
        return x * x
    agrees(f, np.ones(3), at=(np.arange(8.0),))


def test_a_seed_fits_the_replays_output_too() -> None:
    for x, other, seed in ((np.ones(1), np.ones(3), np.ones(1)), (2.0, 2j, 1)):
        tape = tg.gradtape(lambda x: x * 2.0, x, seed=seed)
        for played in (tape, tg.primitivize(tape)):
            with pytest.raises(tg.GuardError):
                played.play(other)


def test_what_is_returned_is_not_the_tapes_own() -> None:
    def f(x: Any) -> Any:
        return x * C, np.arange(3.0), np.arange(6.0)[::2]
    value, tape = tg.trace(f, np.ones(3))
    for part in (*value, *tape.play(np.ones(3))):
        part[:] = 9.0
    same(tape.play(np.ones(3)), f(np.ones(3)))


C = np.arange(3.0)


# -- programs made at random. Every array is weighted into the result, and some of the names are views of others.

VIEWS = """{a}[1:]|{a}[:-1]|{a}[::-1]|{a}[::2]|{a}.T|{a}[...]|{a}[None][0]|{a}.reshape(-1)|{a}.ravel()|{a}.reshape({a}.shape[::-1])|np.squeeze({a})|np.flip({a})
|{a}[:, 0] if {a}.ndim > 1 else {a}[0:1]|{a}[0] if {a}.ndim > 1 else {a}[:1]|np.atleast_2d({a})|{a}.swapaxes(0, -1)|{a}.view()|np.asarray({a})|{a}.real
|{a}.T.reshape(-1)|{a}.reshape(-1, order='F')|np.expand_dims({a}, 0)|np.broadcast_to({a}, (2, *{a}.shape))|np.ascontiguousarray({a})|{a}.astype(float, copy=False)"""
FRESH = """np.sin({a})|{a} * {s}|{a} + {a}[::-1]|np.zeros_like({a})|np.ones({a}.shape)|{a}.copy()|np.array({a})|{a}.T.copy()|np.sort({a}, axis=-1)
|np.where({a} > {s}, {a}, 0.5)|np.cumsum({a}, axis=0)|np.concatenate([{a}, {a}[:1]])|{a}[{a} > 0.4]|{a}[np.array([0, -1, 0])]|np.maximum({a}, {s})
|np.full_like({a}, {s})|np.outer({a}.ravel(), {a}.ravel())[:3, :3]|{a} @ {a}.T|np.exp(-{a})|np.stack([{a}, {a}])[1]|np.asfortranarray({a})|np.diff({a}, axis=0)
|np.linspace(0, 1, 4) * {s}|np.arange(3.) + {s}|np.zeros((2, 3))|np.eye(2)|{a}.flatten()|np.repeat({a}, 2)|np.max({a}, axis=-1, keepdims=True) * {a}"""
NUMBERS = "{a}.sum()|{a}.mean()|{a}.flat[0]|{a}.max()|({s} * 0.5 + 0.1)|np.sin({s})|({s} if {s} > 0.3 else -{s})|{a}.size * {s}|math.tanh({s})|max({s}, 0.2)"
PLACES = "0|-1|1:|::2|::-1|...|[0, -1]|[0, 0, -1]|{a} > {s}|{a} > 0.5|(slice(None), 0) if {a}.ndim > 1 else 0|()|np.array([True] + [False] * (len({a}) - 1))|None"
RIGHT = "{s}|{b}.sum() * 0.3|{a}[::-1] * 0.5|{b} * 0.5 + 0.1|{b}|0.7|np.sin({b})|{a} * {s}"
WRITES = """{a}[{place}] = {right}|{a}[{place}] = {right}|{a}[{place}] += {right}|{a}[{place}] *= {right}|{a} += {s}|{a} *= {b}.mean()|{a} -= {b}|{a} /= 2.0|{a} *= {a}[::-1]
|np.multiply({a}, {s}, out={a})|np.add({a}, {a}[::-1], out={a})|np.copyto({a}, {b})|{a}.fill({s})|{a}.sort(axis=0)|np.add.at({a}, 0, {s})|np.put({a}, [0], [{s}])
|np.cumsum({a}, axis=0, out={a})|np.putmask({a}, {a} > 0.5, {a} * 0.5)|{a} = {b}|{a}, {b} = {b}, {a}|{a}[[0, -1]] = {a}[[-1, 0]]|for row in {a}: row *= {s}
|{a}[-1] = {s} * 2 if {a}.sum() > {s} else {a}[0] * 0.5|for i in range(1, min(len({a}), 3)): {a}[i] = {a}[i - 1] * 0.5 + {b}.mean() * {s}"""


def random_program(seed: int, size: int = 8) -> str:
    rng = random.Random(seed)
    arrays, numbers, lines = ["x", "y"], ["s"], []
    for k in range(size):
        names = {"a": rng.choice(arrays[-4:]), "b": rng.choice(arrays), "s": rng.choice(numbers[-3:])}
        kind, table = rng.choice([("v", VIEWS), ("f", FRESH), ("n", NUMBERS), ("", WRITES), ("", WRITES)])
        line = rng.choice(table.replace("\n", "").split("|"))
        line = line.replace("{place}", rng.choice(PLACES.split("|"))).replace("{right}", rng.choice(RIGHT.split("|"))).format(**names)
        lines.append(f"{kind}{k} = {line}" if kind else line)
        if kind:
            (numbers if kind == "n" else arrays).append(f"{kind}{k}")
    total = " + ".join([f"w({a})" for a in arrays] + numbers)
    return "def f(x, y, s):\n" + "".join(f"    {line}\n" for line in lines) + f"    return {total}\n"


def weigh(a: Any) -> Any:
    return (a * np.cos(0.3 + 0.7 * np.arange(a.size).reshape(a.shape))).sum()


POINTS: list[Callable[[np.random.Generator], tuple[Any, ...]]] = [
    lambda rng: (rng.uniform(0.1, 1, (2, 3)), rng.uniform(0.1, 1, 4), 0.6),
    lambda rng: (np.asfortranarray(rng.uniform(0.1, 1, (3, 3))), rng.uniform(0.1, 1, (3, 1)), 0.6),
    lambda rng: (rng.uniform(0.1, 1, 4), rng.uniform(0.1, 1, (2, 2)), np.float64(0.4)),
    lambda rng: (rng.uniform(0.1, 1, (3, 6))[:, ::2], rng.uniform(0.1, 1, (2, 2, 2)), 0.9),
]


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")  # they write into their arguments
@pytest.mark.parametrize("start", range(0, 300, 60))
def test_programs_made_at_random(start: int) -> None:
    ran = 0
    for seed in range(start, start + 60):
        source, rng = random_program(seed), np.random.default_rng(seed)
        namespace: dict[str, Any] = {"np": np, "math": math, "w": weigh}
        exec(source, namespace)
        f, args, other = namespace["f"], POINTS[seed % 4](rng), POINTS[seed % 4](rng)
        with np.errstate(all="ignore"):
            try:
                finite = abs(f(*map(kept, args))) < 1e6
            except (ValueError, TypeError, IndexError):
                with pytest.raises((ValueError, TypeError, IndexError)):
                    tg.trace(f, *args)
                continue
            if finite:
                ran += 1
                try:
                    agrees(f, *args, at=(other,))
                    slopes(f, args, rng)
                except AssertionError as err:
                    raise AssertionError(f"program {seed}\n{source}\n{err}") from err
    assert ran > 8


def slopes(f: Callable[..., Any], args: tuple[Any, ...], rng: np.random.Generator) -> None:
    """Check the gradient along a direction; where two step sizes disagree, the program has a kink near by."""
    _, (_, *dargs) = tg.grad(f, *args)
    steps = [rng.standard_normal(np.shape(x)) for x in args]

    def moved(x: Any, by: Any) -> Any:
        y = kept(x)
        y += by  # in place: it lies in memory as x does
        return y

    def slope(eps: float) -> float:
        above, below = (f(*[moved(x, sign * eps * step) for x, step in zip(args, steps)]) for sign in (1, -1))
        return float(above - below) / (2 * eps)
    wide, narrow = slope(1e-5), slope(1e-6)
    if abs(wide - narrow) < 1e-4 * max(1, abs(narrow)):
        np.testing.assert_allclose(sum(np.sum(dx * step) for dx, step in zip(dargs, steps)), wide, 1e-3, 1e-3)
