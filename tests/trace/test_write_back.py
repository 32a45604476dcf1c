"""What a program writes happens as without tapegrad, once, with plain values, when the call has ended well."""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import io
import itertools
import math
import queue
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg


class Model:
    kept: Any = 0

    def __init__(self) -> None:
        self.W, self.calls, self.last, self.log, self.cache = np.array([2.0, 3.0]), 0, None, [], {}
        self.me = self

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        self.last = (self.W * x).sum()
        self.log.append((self.last, self.me, {"x": x}))
        self.cache[self.calls] = [self.W * 2]
        self.new = self.log
        return self.last * x


@dataclasses.dataclass
class Field:
    w: float = 2.0
    n: int = 0
    seen: list[Any] = dataclasses.field(default_factory=list)

    def f(self, x: Any) -> Any:
        self.n += 1
        self.seen += [self.w * x, self.n]
        return self.w * x * x


class Slotted:
    __slots__ = ("best", "n", "w")

    def __init__(self) -> None:
        self.w, self.n = 2.0, 0

    def f(self, x: Any) -> Any:
        self.n, self.best = self.n + 1, x * self.w
        return self.w * x * x


class Early:
    def __init__(self) -> None:
        self.w = 2.0

    def f(self, x: Any) -> Any:
        self.__class__ = Late  # type: ignore[assignment]
        return self.w * x * x


class Late(Early):
    pass


class SlottedLate(Slotted):
    __slots__ = ()


class SlottedEarly(Slotted):
    __slots__ = ()

    def f(self, x: Any) -> Any:
        self.__class__ = SlottedLate  # type: ignore[assignment]
        return Slotted.f(self, x)


def history() -> Any:
    found: list[Any] = []

    def f(x: Any) -> Any:
        found.append(x * x)
        return found[-1] * 2.0
    return f, found


def counter() -> Any:
    n, best = 0, None

    def f(x: Any) -> Any:
        nonlocal n, best
        n += 1
        best = x * 2.0
        return x * x
    return f, lambda: (n, best)


def containers() -> Any:
    d: dict[Any, Any] = {"b": 1, "old": "text"}
    s, q, o, e = {"a"}, collections.deque(maxlen=2), collections.OrderedDict(z=None), collections.defaultdict(list)
    nest: list[Any] = [[], [1, 2]]
    count: Any = collections.Counter()

    def f(x: Any) -> Any:
        y = np.sin(x)
        d["a"], d["pair"] = y, (y, [x])
        del d["old"]
        s.add("b"), s.add(len(s))
        q.append(y), q.append(2), q.append(x)
        o["k"] = y
        o.move_to_end("z")
        e["k"].append(y)
        nest[0].append(nest)
        nest[1].insert(0, y)
        count["n"] += 1
        return y * x
    return f, (d, s, q, o, e, nest[0][:0], nest[1], count)


def space() -> Any:
    options = types.SimpleNamespace(w=3.0, seen=None)

    def f(x: Any) -> Any:
        options.seen = [x * options.w]
        options.new = {"y": x}
        return x * options.w
    return f, options


def remembered() -> Any:
    metrics: dict[str, Any] = {}

    def f(x: Any) -> Any:  # the second call finds a number there, of which its result does not depend
        metrics["loss"] = x * x
        if "best" not in metrics or x * x < metrics["best"]:
            metrics["best"] = x * x
        return x * x
    return f, metrics


def on_the_function() -> Any:
    def f(x: Any) -> Any:
        f.calls = getattr(f, "calls", 0) + 1  # type: ignore[attr-defined]
        return x * x
    return f, f.__dict__


class Running:
    """Statistics kept in arrays: a mean, a history, counts, a buffer to work in."""

    def __init__(self) -> None:
        self.mean, self.history, self.n, self.counts = np.zeros(3), np.zeros(40), 0, np.zeros(2, int)
        self.work, self.parts, self.best = np.zeros((2, 3)), [np.zeros(3), {"a": np.zeros((), complex)}], np.full(1, np.inf)

    def __call__(self, x: Any) -> Any:
        y = np.array([1.0, 2.0, 3.0]) * x
        self.mean += 0.1 * (y - self.mean)
        self.history[self.n] = y.sum()
        self.n += 1
        self.counts[int(x > 1.0)] += 1
        row = self.work[1]
        row[:] = y
        np.multiply(y, 2.0, out=self.parts[0])
        self.parts[1]["a"] += 1j * x
        if x < self.best[0]:
            self.best[0] = x
        return (y * y).sum() + 0.0 * x


def captured_arrays() -> Any:
    count, work = np.zeros(1, int), np.zeros(3)

    def f(w: Any, x: Any) -> Any:
        count[0] += 1
        work[:] = x
        w += x
        return (work * work).sum()
    w = np.zeros(2)
    return functools.partial(f, w), (count, work, w)


def state_of(make: Callable[[], Any]) -> Any:
    model = make()
    return (model if callable(model) else model.f), model


PROGRAMS: dict[str, Callable[[], Any]] = {
    "history": history, "counter": counter, "containers": containers, "namespace": space, "remembered": remembered,
    "on the function": on_the_function, "object": lambda: state_of(Model), "dataclass": lambda: state_of(Field),
    "slots": lambda: state_of(Slotted), "class": lambda: state_of(Early), "class of slots": lambda: state_of(SlottedEarly), "arrays of an object": lambda: state_of(Running), "captured arrays": captured_arrays}
MODES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: tg.grad(f, x), "gradient": lambda f, x: tg.gradient(f, x), "trace": lambda f, x: tg.trace(f, x),
    "jvp": lambda f, x: tg.jvp(f, (x,), (1.0,)), "pullback": lambda f, x: tg.pullback(f, x)[1](1.0),
    "linearize": lambda f, x: tg.linearize(f, x)[1](1.0), "gradtape": lambda f, x: tg.gradtape(f, x),
    "hessian": lambda f, x: tg.hessian(f)(x), "jacobian": lambda f, x: tg.jacobian(f)(x), "taylor": lambda f, x: tg.taylor(f, x, 2),
    "value_and_grad": lambda f, x: tg.value_and_grad(f, argnums=None)(x), "gradient inside": lambda f, x: tg.grad(lambda x: tg.gradient(f, x)[0] * x, x)}


def told(x: Any, seen: tuple[int, ...] = ()) -> str:
    """Return all that something holds, as text; of a proxy, that it is one."""
    if id(x) in seen:
        return f"again {len(seen) - seen.index(id(x))}"
    inside = (*seen, id(x))
    if hasattr(type(x), "_tracer"):
        return "a proxy"
    if isinstance(x, types.FunctionType):
        return "".join(told(cell.cell_contents, inside) for cell in x.__closure__ or ()) + told(x.__dict__, inside)
    if isinstance(x, dict):
        return type(x).__name__ + str([(told(key, inside), told(value, inside)) for key, value in x.items()])
    if isinstance(x, set):
        return str(sorted(told(part, inside) for part in x))
    if isinstance(x, (list, tuple, collections.deque)):
        return type(x).__name__ + str([told(part, inside) for part in x])
    own = {name: getattr(x, name) for base in type(x).__mro__ for name in getattr(base, "__slots__", ()) if hasattr(x, name)} or getattr(x, "__dict__", None)
    return type(x).__name__ + (repr(x) if own is None else told(own, inside))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
def test_a_call_leaves_what_the_program_leaves(name: str, mode: str) -> None:
    (f, state), (g, wanted) = PROGRAMS[name](), PROGRAMS[name]()
    for x in (1.5, 0.5, 2.5):
        if name == "containers" and x != 1.5:
            break  # it deletes a key
        g(x)
        MODES[mode](f, x)
        assert told(state) == told(wanted)


STORED_FUNCTIONS: dict[str, Any] = {
    "math.cos": math.cos, "np.cos": np.cos, "np.linalg.norm": np.linalg.norm, "np.add.reduce": np.add.reduce, "np.maximum.accumulate": np.maximum.accumulate, "np.errstate": np.errstate,
    "np.random.rand": np.random.rand, "np.zeros": np.zeros, "math.floor": math.floor, "max": max, "np": np}


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("text", STORED_FUNCTIONS)
@pytest.mark.parametrize("mode", ["trace", "grad", "compiled"])
def test_functions_that_a_program_stores_are_themselves_afterwards(text: str, mode: str) -> None:
    known, space = STORED_FUNCTIONS[text], dict[str, Any](math=math, np=np)
    exec(f"""
def made(o, items, table, members):
    def f(x):
        o.f, o.both = {text}, ({text}, [{text}])
        items.append({text})
        table["f"] = {text}
        members.add({text})
        return x * x
    return f""", space)
    o, items, table, members = types.SimpleNamespace(f=math.sin), list[Any](), dict[str, Any](), set[Any]()
    f = space["made"](o, items, table, members)
    runs: dict[str, Any] = {"trace": lambda x: tg.trace(f, x)[0], "grad": lambda x: tg.grad(f, x)[0], "compiled": tg.compile(f, warmup=1)}
    assert [runs[mode](x) for x in (1.0, 2.0, 3.0)] == [1.0, 4.0, 9.0]
    found = [o.f, o.both[0], o.both[1][0], *items, table["f"], *members]
    assert len(items) == 3 and all(type(part) is type(known) and part == known for part in found)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_raises_writes_nothing(mode: str) -> None:
    model = Model()

    def f(x: Any) -> Any:
        model(x)
        raise KeyError("after all")
    before = told(model)
    with pytest.raises(KeyError):
        MODES[mode](f, 1.5)
    assert told(model) == before


def test_what_the_call_is_differentiated_by_keeps_its_value_and_one_warning_says_so() -> None:
    total, model = 1.0, Model()

    def f(x: Any) -> Any:
        nonlocal total
        total = total + x  # the line of the warning
        model.W = model.W * x
        return total * model.W.sum()
    with pytest.warns(tg.EffectWarning) as caught:
        for x in (2.0, 3.0, 4.0):
            tg.grad(f, x)
    assert [str(each.message).partition(" is lost")[0] for each in caught] == ["what is written to model.W", "what is written to total"]
    assert {each.lineno - f.__code__.co_firstlineno for each in caught} == {2, 3} and caught[0].filename == __file__
    assert total == 1.0 and model.W.tolist() == [2.0, 3.0]
    tg.gradient(f, 2.0)  # by x alone
    assert total == 3.0 and model.W.tolist() == [4.0, 6.0]


def test_nobody_warns_of_what_is_returned_or_of_arrays_that_reach_the_result() -> None:
    model, buffer = Model(), np.zeros(2)

    def f(x: Any) -> Any:
        model.W = model.W * x
        buffer[:] = x
        return buffer.sum() * x, model.W
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tg.grad(f, 2.0, seed=(1.0, None))

    def g(x: Any, buffer: Any) -> Any:  # the caller's
        buffer[:] = x
        return x * x
    other = np.zeros(2)
    with pytest.warns(tg.EffectWarning, match="written into buffer is lost"):
        tg.grad(g, 2.0, other)
    assert buffer.tolist() == [2.0, 2.0] and other.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("empty", [np.zeros((0, 3)), torch.zeros(0, 3, dtype=torch.float64)], ids=["array", "tensor"])
def test_nobody_warns_of_what_is_written_where_there_are_no_numbers(empty: Any) -> None:
    def f(x: Any) -> Any:
        x *= 2.0
        total = (x * 3.0).sum()
        x[:] = 0.0  # of a row, this would be lost
        return total
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tg.grad(f, empty)[0] == 0.0


def test_an_array_that_the_call_is_differentiated_by_keeps_its_numbers_and_a_tape_those_it_was_recorded_with() -> None:
    running = types.SimpleNamespace(mean=np.ones(2))

    def f(x: Any) -> Any:
        running.mean *= 0.5
        running.mean += x
        return (running.mean * x).sum()
    x = np.array([1.0, 2.0])
    with pytest.warns(tg.EffectWarning, match="written into running.mean is lost"):
        tg.grad(f, x)
    assert running.mean.tolist() == [1.0, 1.0]
    _, tape = tg.trace(f, x)
    assert running.mean.tolist() == [1.5, 2.5] and tape[2].val.tolist() == [1.0, 1.0]
    tg.gradient(f, x)
    assert running.mean.tolist() == [1.75, 3.25]


def captured_and_written(x_is_written: bool) -> Any:
    b = np.ones(2)

    def f(x: Any) -> Any:
        r = (b * x ** 2).sum()
        b[0] = x if x_is_written else 5.0
        return r
    return f


def both_written_and_read() -> Any:
    b = np.ones(2)

    def f(x: Any) -> Any:
        r = (b * x ** 2).sum()
        b[0] = x
        return r + (b * x ** 2).sum()
    return f


SECOND: list[Callable[[Any, float], Any]] = [
    lambda f, x: tg.hessian(f)(x), lambda f, x: tg.hvp(f)(x, 1.0), lambda f, x: tg.jvp(lambda x: tg.gradient(f, x)[0], (x,), (1.0,))[1],
    lambda f, x: tg.gradient(lambda x: tg.pullback(f, x, captured=False)[1](1)[1], x)[0],
    lambda f, x: tg.gradient(lambda x: tg.pullback(f, x, argnums=0)[1](1), x)[0],
    lambda f, x: tg.jvp(lambda x: tg.linearize(f, x)[1](1.0), (x,), (1.0,))[1],
    lambda f, x: tg.gradient(lambda x: tg.grad(f, x, argnums=0)[1], x)[0]]


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")
@pytest.mark.parametrize("second", range(len(SECOND)))
def test_second_derivatives_read_what_a_captured_array_held_then(second: int) -> None:
    for make, expected in ((lambda: captured_and_written(False), 4.0), (lambda: captured_and_written(True), 4.0), (both_written_and_read, 18.0)):
        assert SECOND[second](make(), 2.0) == expected


def test_a_parameter_written_to_without_a_gradient_is_written_unless_the_result_depends_on_it() -> None:
    layer = torch.nn.Linear(2, 2)
    before = layer.weight.detach().clone()

    def clip(m: Any, x: Any) -> Any:
        with torch.no_grad():
            m.weight.mul_(0.5)
        return (m.bias * x).sum()
    tg.grad(clip, layer, torch.ones(2))
    assert torch.equal(layer.weight, before * 0.5)
    with pytest.warns(tg.EffectWarning, match="written into m.weight is lost"):
        tg.grad(lambda m, x: clip(m, m(x)), layer, torch.ones(2))
    tg.gradient(lambda x: clip(layer, layer(x)), torch.ones(2))
    assert torch.equal(layer.weight, before * 0.25)


def test_what_happens_to_a_set_or_a_bytearray_in_a_checkpoint_is_refused() -> None:
    for state, write in ((set(), lambda s: s.add(2)), (bytearray(b"a"), lambda s: s.reverse() or s.append(3))):
        def g(x: Any) -> Any:
            write(state)  # noqa: B023 - called before the next
            return x * x
        with pytest.raises(tg.TapeError, match="it writes to state"):
            tg.grad(tg.checkpoint(g), 2.0)
    shared: set[int] = set()
    with pytest.raises(tg.TapeError, match="a set that two arguments share"):
        tg.grad(lambda s, t, x: s.add(1) or x * len(t), shared, shared, 2.0)


def test_what_is_stored_lies_in_memory_of_its_own() -> None:
    kept: dict[str, Any] = {}

    def f(x: Any) -> Any:
        y = x * 2.0
        kept["y"], kept["part"], kept["x"], kept["again"] = y, y[:2], x, [y]
        return (y * y).sum()
    x = np.arange(3.0)
    value, tape = tg.trace(f, x)
    assert kept["x"] is x and kept["again"][0] is kept["y"] and np.shares_memory(kept["part"], kept["y"])
    y, part = kept["y"], kept["part"]
    y[:] = 7.0
    kept.clear()  # as it was when the tape was recorded
    assert tape.play(x) == value == 20.0 and part.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("around", ["", "grad"])
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "containers"])
def test_a_batch_leaves_what_a_loop_over_its_members_leaves(name: str, around: str) -> None:
    (f, state), (g, wanted) = PROGRAMS[name](), PROGRAMS[name]()
    xs = np.array([1.5, 0.5, 2.5])
    for _ in range(2):
        expected = [g(x) for x in xs]
        found = tg.vmap(f)(xs) if not around else tg.trace(lambda xs: tg.vmap(f)(xs) * 1.0, xs)[0]
        np.testing.assert_allclose(found, expected)
        assert told(state) == told(wanted)


LOG: list[Any] = []
TIMES = 0
TABLE = {"seen": np.zeros(3)}


class Registry:
    count = 0
    kept: Any = None


@functools.lru_cache
def cached(n: int) -> Any:
    return n


def outside(x: Any) -> Any:
    global TIMES
    cached.last = x  # type: ignore[attr-defined]
    TIMES += 1
    LOG.append((TIMES, x))
    TABLE["seen"][TIMES % 3] += 1.0
    Registry.count += 1
    Registry.kept = x * 2.0
    print("call", TIMES)
    return x * x if x < 2.0 else -x


def says_number(x: Any) -> Any:
    LOG.append("before")
    print(f"x = {x:.1f}")
    return x * math.floor(x)


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")
@pytest.mark.parametrize("f", [outside, says_number])
def test_a_batch_writes_to_globals_and_prints_as_a_loop_does(f: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    xs = np.array([1.5, 0.5, 2.5, 1.0])
    for run in (lambda: [f(x) for x in xs], lambda: tg.vmap(f)(xs)):
        LOG.clear(), TABLE["seen"].fill(0.0)
        globals()["TIMES"], Registry.count, Registry.kept = 0, 0, None
        value = list(run())
        found.append((value, vars(cached).get("last"), told(LOG), TIMES, told(TABLE), Registry.count, Registry.kept, capsys.readouterr().out))
    assert found[0] == found[1]


def test_a_batch_of_no_members_and_one_that_raises_write_nothing() -> None:
    model, shared = Model(), {"n": 0}

    def f(x: Any) -> Any:
        shared["n"] += 1
        if x > 1.0:
            raise KeyError("after all")
        return model(x)
    before = told(model)
    assert tg.vmap(f)(np.zeros(0)).shape == (0, ) and shared == {"n": 0} and told(model) == before
    with pytest.raises(KeyError):
        tg.vmap(f)(np.array([2.0, 0.5]))
    assert shared == {"n": 0} and told(model) == before


def test_what_a_member_writes_to_its_own_copy_or_to_an_array_is_lost_and_one_warning_says_so() -> None:
    buffer, other = np.zeros(2), np.zeros(2)

    def f(state: Any, x: Any) -> Any:
        state["n"] = x * 2.0  # the line of the warning
        return x * state["w"]

    def g(x: Any) -> Any:
        buffer[0] += x
        return x * x

    def h(part: Any, x: Any) -> Any:
        part[0] += x
        return x * x
    state = {"w": np.ones(3), "n": 0}
    with pytest.warns(tg.EffectWarning) as caught:
        for _ in range(2):
            assert tg.vmap(f, in_axes=({"w": 0, "n": None}, 0))(state, np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
            tg.vmap(g)(np.arange(3.0))
            tg.vmap(h, in_axes=(None, 0))(other, np.arange(3.0))
    assert [str(each.message).partition(" is lost")[0] for each in caught] == [
        "what it writes to state['n']", "what is written into part"]
    assert state["n"] == 0 and buffer.tolist() == [6.0, 0.0] and other.tolist() == [0.0, 0.0]


def advanced(make: Callable[[], Any]) -> Any:
    def program() -> Any:
        xs = make()
        return lambda x: x * next(xs), lambda: next(xs)
    return program


def held(make: Callable[[], Any], write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Any:
    def program() -> Any:
        state = make()

        def f(x: Any) -> Any:
            write(state)
            return x * x
        return f, lambda: read(state)
    return program


LASTING: dict[str, Callable[[], Any]] = {
    "list": advanced(lambda: iter([1, 2, 3, 4, 5])), "count": advanced(itertools.count), "generator": advanced(lambda: (k for k in range(9))),
    "text": held(io.StringIO, lambda s: s.write("hi"), lambda s: s.getvalue()), "bytes": held(io.BytesIO, lambda s: s.write(b"hi"), lambda s: s.getvalue()),
    "read": held(lambda: io.StringIO("a\nb\nc\nd"), lambda s: s.readline(), lambda s: s.read()),
    "file": held(lambda: io.TextIOWrapper(io.BytesIO()), lambda s: s.write("hi"), lambda s: (s.seek(0), s.read())),
    "queue": held(queue.Queue, lambda s: s.put(1), lambda s: s.qsize()), "simple": held(queue.SimpleQueue, lambda s: s.put(1), lambda s: s.qsize())}


@pytest.mark.parametrize("name", LASTING)
def test_vmap_advances_and_writes_what_all_members_share_as_a_loop_does(name: str) -> None:
    (f, state), (g, wanted), xs = LASTING[name](), LASTING[name](), np.arange(3.0)
    assert tg.vmap(f)(xs).tolist() == [g(x) for x in xs] and state() == wanted()


def test_a_batch_norm_counts_each_member() -> None:
    one, other, xs = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2), torch.arange(12.0).reshape(3, 2, 2)
    found = tg.vmap(one)(xs)
    torch.testing.assert_close(found, torch.stack([other(x) for x in xs]))
    for name, value in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], value)


class Particle:
    def __init__(self, m: Any) -> None:
        self.m = m

    def __lt__(self, other: Any) -> bool:
        return bool(self.m < other.m)

    def __repr__(self) -> str:
        return f"Particle({self.m})"


class Pair:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __repr__(self) -> str:
        return f"Pair({self.a}, {self.b})"


def three() -> list[Any]:
    return [Particle(3.0), Particle(2.0), Particle(1.0)]


def exchanged(o: Any) -> None:
    o.a, o.b = o.b, o.a


MOVES: dict[str, tuple[Any, Any, Any]] = {
    "sort": (lambda c: c.sort(key=lambda p: p.m), three, lambda c: c[0].m), "reverse": (lambda c: c.reverse(), three, lambda c: c[0].m),
    "append, pop": (lambda c: c.append(c.pop(0)), three, lambda c: c[0].m * c[1].m), "insert, pop": (lambda c: c.insert(0, c.pop()), three, lambda c: c[0].m),
    "heapify": (heapq.heapify, three, lambda c: c[0].m), "rotate": (lambda c: c.rotate(1), lambda: collections.deque(three()), lambda c: c[0].m),
    "slice": (lambda c: c.__setitem__(slice(None), [c[1], c[0], c[2]]), three, lambda c: c[0].m),
    "dict": (lambda d: d.update(a=d["b"], b=d["a"]), lambda: {"a": Particle(1.0), "b": Particle(2.0)}, lambda d: d["a"].m),
    "attributes": (exchanged, lambda: types.SimpleNamespace(a=Particle(1.0), b=Particle(2.0)), lambda o: o.a.m),
    "slots": (exchanged, lambda: Pair(Particle(1.0), Particle(2.0)), lambda o: o.a.m),
    "dicts": (lambda c: c.sort(key=lambda p: p["m"]), lambda: [{"m": 3.0}, {"m": 2.0}, {"m": 1.0}], lambda c: c[0]["m"]),
    "numbers": (lambda c: c.sort(), lambda: [3.0, 2.0, 1.0], lambda c: c[0]),
    "one in two places": (lambda c: setattr(c[0], "n", 1), lambda: [*[Particle(3.0)] * 2], lambda c: c[0].m * c[1].m)}


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")
@pytest.mark.parametrize("name", MOVES)
def test_objects_that_change_places_do_so_in_the_callers_container(name: str) -> None:
    move, make, read = MOVES[name]

    def f(c: Any, x: Any) -> Any:
        move(c)
        return read(c) * x
    plain = make()
    f(plain, 2.0)
    for call in (lambda c: tg.grad(f, c, 2.0), lambda c: tg.grad(lambda x: f(c, x), 2.0), lambda c: tg.value_and_grad(f, argnums=(0, 1))(c, 2.0), lambda c: tg.vjp(f, c, 2.0),
                 lambda c: tg.compile(f)(c, 2.0), lambda c: tg.jvp(lambda x: f(c, x), (2.0,), (1.0,))):
        given = make()
        call(given)
        assert repr(given) == repr(plain)
    step, given, plain = tg.value_and_grad(f, argnums=1), make(), make()
    for i in range(6):
        step(given, 2.0 + i)
        f(plain, 2.0 + i)
        assert repr(given) == repr(plain)
