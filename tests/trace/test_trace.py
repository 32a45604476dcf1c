"""Tracing: Python's own control flow, structured arguments, guards, contexts."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import Call, Context, Guard, GuardError
from tests.threads import at_once


def calls(tape: tg.Tape) -> list[str]:
    return [op.fn.__name__ for op in tape if isinstance(op, Call)]


@pytest.mark.quick
def test_a_slice_of_traced_numbers_is_a_result() -> None:
    def f(x: Any) -> Any:
        return slice(x, 2 * x), {"part": slice(None, x, 1)}
    value, tape = tg.trace(f, 2.0)
    assert value == f(2.0) and tape.play(3.0) == f(3.0)
    assert [step(x) for step in [tg.compile(f)] for x in (1.0, 2.0, 3.0, 4.0)] == list(map(f, (1.0, 2.0, 3.0, 4.0)))


@pytest.mark.parametrize("way", [lambda f, *args: tg.trace(f, *args), lambda f, *args: tg.compile(f)(*args)])
def test_a_container_that_holds_itself_is_refused(way: Any) -> None:
    def made(x: Any) -> Any:
        parts = [x]
        parts.append(parts)
        return parts
    known: Any = {"w": 2.0}
    known["again"] = [known]
    with pytest.raises(tg.ArgumentError, match="a list that contains itself"):
        way(made, 2.0)
    with pytest.raises(tg.ArgumentError, match="a dict that contains itself"):
        way(lambda x: x * known["again"][0]["w"], 2.0)


def test_the_first_example() -> None:
    def g(a: Any, b: Any) -> Any:
        return a * b

    def h(a: Any) -> Any:
        return np.sin(a)

    def f(x1: Any, x2: Any) -> Any:
        return g(x1, x2) + h(x1)
    value, tape = tg.trace(f, 2.0, 3.0)
    assert value == f(2.0, 3.0) and len(tape.inputs) == 3 and calls(tape) == ["multiply", "sin", "add"]
    assert [op.where.function for op in tape if isinstance(op, Call)] == ["g", "h", "f"]
    assert tape[4].where.source == "return a * b" and tape[4].where.file == __file__
    assert tg.gradient(f, 2.0, 3.0) == (2.5838531634528574, 2.0)


def loop(x: Any, n: Any) -> Any:
    r = 1
    for _ in range(n):
        r = r * x
    return r


def recursive(x: Any, n: Any) -> Any:
    return 1 if n == 0 else x * recursive(x, n - 1)


@pytest.mark.parametrize("power", [loop, recursive])
def test_loops_and_recursion_just_run(power: Any) -> None:
    assert tg.gradient(power, 5, 3) == (75.0, 0.0)


def generator(x: Any) -> Any:
    def values() -> Any:
        for i in range(3):
            yield x * i
    return sum(values())


def exceptions(x: Any) -> Any:
    try:
        if x > 0:
            raise ValueError("no")
        return x
    except ValueError:
        return x * 3


PROGRAMS = [
    generator, exceptions,
    lambda x: sum([x * i for i in range(4)]),
    lambda x: sum(map(lambda v: v * v, [x, 2 * x])),
    lambda x: sorted([x, -x, 3 * x], key=lambda v: -v)[0] + max(x, 2.0) + min(x, 1.0),
    lambda x: functools.reduce(lambda a, b: a * b, [x] * 4),
    lambda x: {"a": x}["a"] * len(f"{x:.1f}"),
    lambda x: (x if x > 1 else -x) * (1 if x else 2),
    lambda x: divmod(x, 0.7)[1] + x // 0.5 + x % 0.3,
    lambda x: abs(-x) + (+x) ** 2 + 2 ** x + round(x, 1) * x + math.floor(x) * x,
    lambda x: math.sin(x) * math.exp(x) + math.hypot(x, 2.0) + math.log(x, 3),
    lambda x: x * int(x) + x * bool(x) + [10.0, 20.0][int(x > 1)] * x,
    lambda x: x * (x in [1.7, 2.0]) + x * isinstance(x, float),
    lambda x: x.conjugate() * 2 + x.real + x.imag,
    lambda x: np.float64(3.0) * x + np.float64(2.0) / x - np.float64(1.0) ** x,
    lambda x: x * x if 0 < x < 10 and not x == 5 else x,
]


@pytest.mark.parametrize("f", PROGRAMS)
def test_python_just_runs(f: Any) -> None:
    value, (_, dx) = tg.grad(f, 1.6)
    assert value == f(1.6)
    assert dx == pytest.approx((f(1.6 + 1e-6) - f(1.6 - 1e-6)) / 2e-6, rel=1e-6)


def test_an_exception_of_the_users_leaves_no_trace() -> None:
    sin = math.sin
    with pytest.raises(ZeroDivisionError):
        tg.trace(lambda x: x / 0, 1.0)
    with pytest.raises(ValueError, match="math domain"):
        tg.trace(lambda x: math.sqrt(x), -1.0)
    assert math.sin is sin and gc.isenabled()


# -- guards


@pytest.mark.quick
def test_a_branch_is_guarded() -> None:
    def f(x: Any) -> Any:
        if x > 0:
            return x * 2
        return x * 3
    _, tape = tg.trace(f, 1.0)
    assert tape.play(5.0) == 10.0
    with pytest.raises(GuardError, match="was True; now it is False") as caught:
        tape.play(-1.0)
    assert caught.value.where.source == "if x > 0:"
    gradient = tg.gradtape(f, 1.0)
    with pytest.raises(GuardError):
        gradient.play(-1.0)


@pytest.mark.parametrize(("f", "same", "other"), [
    (lambda x, n: sum(x for _ in range(n)), 3, 4), (lambda x, n: x * int(n), 3, 4), (lambda x, n: {1: x, 3: 2 * x}[n], 3, 1),
    (lambda x, n: x * math.floor(n), 3, 4), (lambda x, n: x * round(n), 3, 4),
])
def test_what_steers_the_program_is_guarded(f: Any, same: Any, other: Any) -> None:
    _, tape = tg.trace(f, 2.0, same)
    assert tape.play(5.0, same) == f(5.0, same)
    with pytest.raises(GuardError):
        tape.play(5.0, other)


def test_a_shape_that_was_read_is_guarded() -> None:
    _, tape = tg.trace(lambda x: x.sum() / len(x), np.ones(3))
    with pytest.raises(GuardError, match="shape"):
        tape.play(np.ones(4))
    _, generic = tg.trace(lambda x: np.sin(x) * 2, np.ones(3))
    assert not [op for op in generic if isinstance(op, Guard)]
    assert generic.play(np.ones((2, 2))).shape == (2, 2)
    gradient = tg.gradtape(lambda x: (x * x).sum(), np.ones(3))
    np.testing.assert_array_equal(gradient.play(np.arange(4.0))[1][1], 2 * np.arange(4.0))  # the triple tape is generic
    flat = tg.primitivize(gradient)
    np.testing.assert_array_equal(flat.play(np.arange(3.0))[1][1], 2 * np.arange(3.0))
    with pytest.raises(GuardError, match="shape"):  # the flat one is specialised
        flat.play(np.arange(4.0))


# -- structured arguments


@dataclasses.dataclass(frozen=True)
class Model:
    W: Any
    b: float
    name: str = "model"

    def loss(self, x: Any) -> Any:
        return self.W * x + self.b

    def __call__(self, x: Any) -> Any:
        return self.loss(x) ** 2


Point = collections.namedtuple("Point", "a b")


class Plain:
    def __init__(self) -> None:
        self.w, self.cache, self.calls, self.owner = 3.0, {}, 0, None

    def f(self, x: Any) -> Any:
        self.calls += 1
        self.cache["last"] = x
        return self.w * self.cache["last"]


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w: float) -> None:
        self.w = w


@pytest.mark.quick
def test_gradients_mirror_the_arguments() -> None:
    m = Model(2.0, 3.0)
    assert tg.grad(m.loss, 4.0) == (11.0, (Model(4.0, 1.0, None), 2.0))  # type: ignore[arg-type]
    assert tg.grad(m, 4.0) == (121.0, (Model(88.0, 22.0, None), 44.0))  # type: ignore[arg-type]
    assert tg.gradient(lambda m, x: m.loss(x), m, 4.0) == (Model(4.0, 1.0, None), 2.0)  # type: ignore[arg-type]
    assert tg.gradient(lambda p: p.a * p.b, Point(2.0, 3.0)) == (Point(3.0, 2.0),)
    nested = {"a": [1.0, 2.0], "b": {"c": 3.0, "s": "text"}, "none": None}
    assert tg.gradient(lambda d: d["a"][0] * d["b"]["c"], nested) == ({"a": [3.0, 0.0], "b": {"c": 1.0, "s": None}, "none": None},)
    (d,) = tg.gradient(lambda s: s.w * s.w, Slotted(3.0))
    assert isinstance(d, Slotted) and d.w == 6.0


def test_a_named_tuple_is_a_list_of_its_numbers() -> None:
    assert tg.gradient(lambda p: np.sum(p) * np.linalg.norm(p), Point(3.0, 4.0)) == (Point(5.0 + 7 * 0.6, 5.0 + 7 * 0.8),)
    assert tg.gradient(lambda p: math.dist(p, (0.0, 0.0)), Point(3.0, 4.0)) == (Point(0.6, 0.8),)


def test_text_is_made_of_plain_numbers() -> None:
    def f(x: Any) -> Any:
        text = "%.1f, %s" % (x, x) + f"{x:.1f}"  # noqa: UP031
        assert text == "2.0, 2.02.0"
        return x * x
    _, tape = tg.trace(f, 2.0)
    assert "guard" not in str(tape)
    assert tg.gradient(lambda x: tg.gradient(f, x)[0], 2.0) == (2.0,)
    with pytest.raises(tg.ConcretizationError):
        tg.trace(lambda x: x % float(x), 2.0)


def test_inputs_are_labelled_by_path() -> None:
    _, tape = tg.trace(lambda m, p: m.W * p["b"][1], Model(2.0, 3.0), {"b": [1.0, 2.0]})
    assert [x.label for x in tape.inputs[1:]] == ["m.W", "m.b", "p['b'][0]", "p['b'][1]"]
    assert [x.label for x in tg.trace(Model(2.0, 3.0).loss, 1.0)[1].inputs[1:]] == ["self.W", "self.b", "x"]


def test_what_a_function_captured_is_an_input() -> None:
    a = 3.0
    assert tg.grad(lambda x: a * x, 2.0) == (6.0, ({"a": 2.0}, 3.0))
    assert tg.grad(functools.partial(lambda a, x: a * x, 3.0), 2.0) == (6.0, ({"args": (2.0,)}, 3.0))

    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return a * y
        return inner(x)
    assert tg.grad(outer, 2.0) == (6.0, ({"a": 2.0}, 3.0))

    def scale(y: Any) -> Any:
        return a * y
    assert tg.grad(lambda x: scale(x), 2.0) == (6.0, ({"scale": {"a": 2.0}}, 3.0))
    assert tg.grad(recursive, 2.0, 1)[1][0] is None


def test_local_recursion_and_cycles() -> None:
    w = 3.0

    def even(n: Any, x: Any) -> Any:
        return x * w if n == 0 else odd(n - 1, x)

    def odd(n: Any, x: Any) -> Any:
        return even(n - 1, x) * x if n > 0 else x
    assert tg.grad(even, 2, 2.0) == (12.0, ({"w": 4.0}, 0.0, 12.0))
    p = Plain()
    p.owner = p
    assert tg.gradient(lambda p: p.owner.w * p.w, p)[0].w == 6.0


def test_what_a_call_writes_happens_once_and_arrays_are_never_touched() -> None:
    p, x, cache, seen = Plain(), np.ones(3), {}, []

    def f(p: Any, x: Any) -> Any:
        cache["x"] = x
        seen.append(x)
        return p.f(x).sum()
    tg.grad(f, p, x)
    assert p.calls == 1 and cache["x"] is seen[0] is x and len(p.cache) == len(cache) == len(seen) == 1
    np.testing.assert_array_equal(x, np.ones(3))
    (dx,) = tg.gradient(lambda x: x.sum(), x)
    dx += 1  # fresh and writable
    da, db = tg.gradient(lambda a, b: (a + b).sum(), x, x.copy())
    assert da is not db and not np.shares_memory(da, db)


def test_a_constant_array_that_is_overwritten_later() -> None:
    buffer = np.zeros(3)
    globals()["BUFFER"] = buffer

    def f(x: Any) -> Any:
        y: Any = 0.0
        for i in range(3):
            BUFFER[:] = i  # type: ignore[name-defined]  # noqa: F821
            y = y + x * BUFFER  # type: ignore[name-defined]  # noqa: F821
        return y.sum()
    np.testing.assert_array_equal(tg.gradient(f, np.ones(3))[0], [3.0, 3.0, 3.0])


def test_captured_values_are_read_anew_by_play() -> None:
    p = Plain()
    _, tape = tg.trace(p.f, 2.0)
    p.cache.clear()  # as it was when the tape was recorded
    p.w = 10.0
    assert tape.play(2.0) == 20.0


# -- contexts


def g(x: Any, y: Any = 1.0) -> Any:
    return x * x + y


def test_a_context_makes_functions_primitive() -> None:
    def f(x: Any) -> Any:
        return g(x, y=2.0) * 3 + helper(x)
    _, tape = tg.trace(f, 2.0, ctx=Context(primitives=[g]))
    assert calls(tape) == ["g", "multiply", "g", "add"] and tape.result.val == f(2.0) and tape[3].where.function == "f"
    assert calls(tg.trace(f, 2.0)[1]).count("g") == 0
    assert calls(tg.primitivize(tape)) == calls(tg.trace(f, 2.0)[1])
    assert tape.play(3.0) == f(3.0)


def helper(x: Any) -> Any:
    return g(x)


def test_a_context_may_record_otherwise() -> None:
    class Counting(Context):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def record(self, tape: tg.Tape, call: Call) -> tg.Variable:
            self.seen.append(call.fn.__name__)
            return super().record(tape, call)

    class Whole(Context):
        def is_primitive(self, fn: Any) -> bool:
            return fn is np.var or super().is_primitive(fn)
    ctx = Counting()
    _, tape = tg.trace(lambda x: np.sin(x) * 2 + x, 1.0, ctx=ctx)
    assert ctx.seen == calls(tape) == ["sin", "multiply", "add"]
    _, tape = tg.trace(lambda x: np.var(x), np.arange(3.0), ctx=Whole())
    assert calls(tape) == ["var"]


def test_concurrent_traces() -> None:
    failures: list[Any] = []

    def work(k: int) -> None:
        for i in range(50):
            got = tg.gradient(lambda x: math.sin(x) * k * g(x), 0.5 + i)
            x = 0.5 + i
            want = k * (math.cos(x) * (x * x + 1) + math.sin(x) * 2 * x)
            if got[0] != pytest.approx(want) or math.sin(0.5) != SIN_HALF:
                failures.append((k, i, got, want))
    at_once(work, range(4))
    assert not failures and math.sin.__name__ == "sin" and not hasattr(math.sin, "__wrapped__") and gc.isenabled()


SIN_HALF = math.sin(0.5)


BUFFERS = [np.ones((size, 2)) for size in (3, 1000, 100_000)]


def _filled(x: Any) -> Any:
    for buffer in BUFFERS:
        buffer.fill(2.0)
    return np.sum(x * x)


@pytest.mark.parametrize("buffer", BUFFERS)
def test_a_write_to_an_argument_by_another_name_is_noticed(buffer: Any) -> None:
    buffer.fill(1.0)
    shared = buffer[:, ::-1]
    with pytest.raises(tg.MutationError, match="x was written to"):
        tg.grad(_filled, shared)
    buffer.fill(1.0)
    with pytest.raises(tg.MutationError, match=r"data\.a was written to"):
        tg.trace(lambda data: _filled(data.a), SimpleNamespace(a=shared))
    buffer.fill(1.0)

    def through_the_argument(x: Any) -> Any:
        x[0] = 5.0
        return np.sum(x)
    assert tg.grad(through_the_argument, shared)[0] == shared.size + 8.0 and (buffer == 1.0).all()
