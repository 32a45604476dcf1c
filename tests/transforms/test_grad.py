"""grad, gradient, pullback, gradtape: seeds, structures, nesting, scale."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad import ops
from tapegrad.tape.tape import Guard
from tapegrad.testing import check_grads
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.tree.flatten import Structure
from tests.harness.run import exported


@pytest.mark.quick
def test_the_opening_lines() -> None:
    value, (df, da, db) = tg.grad(lambda a, b: a / (a + b * b), 2.0, 3.0)
    assert value == pytest.approx(0.18181818181818182) and df is None
    assert (da, db) == pytest.approx((9 / 121, -12 / 121))


def test_seeds() -> None:
    x = np.arange(3.0)
    np.testing.assert_array_equal(tg.gradient(np.square, x, seed=np.ones(3))[0], 2 * x)
    np.testing.assert_array_equal(tg.gradient(np.square, x, seed=[1, 2, 3])[0], 2 * x * [1, 2, 3])
    assert tg.gradient(lambda x: x * x, 3.0, seed=2.0) == (12.0,)
    assert tg.grad(lambda x, y: (x * y, {"k": x}), 2.0, 3.0, seed=(1.0, {"k": 10.0})) == ((6.0, {"k": 2.0}), (None, 13.0, 2.0))
    assert tg.gradient(lambda x, y: (x * y, {"k": x}), 2.0, 3.0, seed=(None, {"k": 10.0})) == (10.0, 0.0)
    assert tg.gradient(lambda z: z * z, 1 + 2j, seed=1 + 0j) == ((2 - 4j),)
    for seed in ({"a": 1.0, "b": 10.0}, {"b": 10.0, "a": 1.0}):
        assert tg.gradient(lambda x: {"b": 2 * x, "a": x * x}, 3.0, seed=seed) == (26.0,)
        assert tg.pullback(lambda x: {"b": 2 * x, "a": x * x}, 3.0)[1](seed) == (None, 26.0)
    np.testing.assert_array_equal(tg.gradient(lambda x: x * 1j, np.ones(2), seed=[1j, 2])[0], [1.0, 0.0])


@pytest.mark.parametrize("empty", [(), {}, [], ((), {}), {"a": [()]}, OrderedDict()])
def test_gradients_of_nothing_are_nested_like_it(empty: Any) -> None:
    def square(nothing: Any, x: float) -> float:
        return x * x
    for found in (tg.gradient(square, empty, 3.0), tg.value_and_grad(square, argnums=None)(empty, 3.0)[1][1:], tg.gradtape(square, empty, 3.0).play(empty, 3.0)[1][1:]):
        assert found == (empty, 6.0) and type(found[0]) is type(empty)
    assert tg.gradient(square, ("text", empty), 3.0) == (None, 6.0)


@pytest.mark.parametrize(("f", "seed", "message"), [
    (lambda x: x, 1, "needs a seed"), (lambda x: (x, x), 1, "needs a seed"), (lambda x: x * 1j, 1, "needs a seed"),
    (lambda x: x, np.ones(4), "seed has shape"), (lambda x: (x, x), (1.0,), "pass the same nesting"),
    (lambda x: x, np.ones((1, 3)), "seed has shape"), (lambda x: x, [1, "a", 2], "the seed is"), (lambda x: x, [1j, 0, 0], "the seed is"),
    *[(lambda x: {"b": x, "a": 2 * x}, seed, "is a dict of")
      for seed in ({"a": np.ones(3)}, {"b": np.ones(3), "c": np.ones(3)}, {"a": None, "b": None, "c": None}, (np.ones(3), np.ones(3)))],
    (lambda x: [x, x], {0: np.ones(3), 1: np.ones(3)}, "is a list of"), (lambda x: SimpleNamespace(p=x), {"q": np.ones(3)}, "which has no 'q'"),
    (lambda x: SimpleNamespace(p=x), SimpleNamespace(q=np.ones(3)), "which has no 'q'"), (lambda x: SimpleNamespace(p=x), 1.0, "pass the same nesting"),
    (lambda x: x.sum() > 0, 1, "has no gradient"), (lambda x: None, 1, "has no gradient"), (lambda x: "text", 1, "has no gradient"),
])
def test_seeds_that_do_not_fit(f: Any, seed: Any, message: str) -> None:
    for run in (tg.grad, tg.gradtape):
        with pytest.raises(tg.ArgumentError, match=message):
            run(f, np.ones(3), seed=seed)


def test_outputs_that_do_not_depend_or_are_inputs() -> None:
    x = np.ones((2, 3), np.float32)
    value, (_, dx, dy) = tg.grad(lambda x, y: 3.0, x, 2)
    assert value == 3.0 and dx.dtype == np.float32 and dx.shape == (2, 3) and not dx.any() and dy == 0.0
    assert tg.grad(lambda x, y: y, 1.0, 2.0) == (2.0, (None, 0.0, 1.0))
    for f in (lambda x, y: 3.0, lambda x, y: y, lambda x, y: (y * 1).sum() if hasattr(y, "sum") else y * 1):
        assert tg.gradtape(f, 1.0, 2.0).play(1.0, 2.0) == tg.grad(f, 1.0, 2.0)


def test_gradients_have_the_type_of_their_inputs() -> None:
    args = (1.0, 2, np.float32(3.0), np.float64(4.0), np.ones(2, np.float32), np.ones(2), np.array(1.0), np.arange(3),
            True, np.array([True]), "s")
    types = tg.gradient(lambda *xs: sum((x * 2.0).sum() if hasattr(x, "sum") else x * 2.0 for x in xs[:-1]), *args)
    assert [type(t) for t in types] == [float, float, np.float32, np.float64, np.ndarray, np.ndarray, np.ndarray, np.ndarray, type(None), type(None), type(None)]
    assert types[4].dtype == np.float32 and types[6].shape == () and types[7].dtype == np.float64


def test_keyword_arguments_are_passed_on() -> None:
    assert tg.grad(lambda x, *, s: x * s, 2.0, s=5.0) == (10.0, (None, 5.0))
    assert tg.gradtape(lambda x, *, s: x * s, 2.0, s=5.0).play(3.0, s=7.0) == (21.0, (None, 7.0))


@pytest.mark.quick
def test_pullback_may_be_called_again() -> None:
    value, back = tg.pullback(lambda x: x * x, np.arange(3.0))
    np.testing.assert_array_equal(value, [0.0, 1.0, 4.0])
    for scale in (1.0, 2.0):
        np.testing.assert_array_equal(back(scale * np.ones(3))[1], scale * 2 * np.arange(3.0))


@pytest.mark.quick
def test_gradient_of_gradient_to_any_order() -> None:
    def nth(n: int, f: Any) -> Any:
        for _ in range(n):
            f = (lambda g: lambda x: tg.gradient(g, x)[0])(f)
        return f
    assert [nth(n, lambda x: x ** 4)(2.0) for n in range(6)] == [16.0, 32.0, 48.0, 48.0, 24.0, 0.0]
    # perturbations of the two levels must not be confused (Siskind and Pearlmutter 2005)
    assert tg.gradient(lambda x: x * tg.gradient(lambda y: x + y, 1.0)[0], 2.0) == (1.0,)
    assert tg.gradient(lambda x: x * tg.gradient(lambda y: x * y, 2.0)[0], 3.0) == (6.0,)
    check_grads(lambda x: np.sum(np.exp(x) / (1 + x * x)) ** 2, np.linspace(-1, 1, 4), order=3)
    assert tg.gradient(lambda x: tg.grad(lambda y: y * x, 5.0)[0], 2.0) == (5.0,)
    inner = tg.gradtape(lambda x: tg.gradient(lambda y: y ** 3, x)[0], 2.0)
    assert inner.play(3.0) == (27.0, (None, 18.0))


def test_the_written_sweep_explains_itself() -> None:
    tape = tg.gradtape(lambda x1, x2: x1 * x2 + np.sin(x1), 2.0, 3.0)
    notes = [op.note for op in tape if op.note]
    assert notes == ["seed", "pullback of %11", "d%5", "d%8", "pullback of %8", "d%2", "pullback of %5", "d%2", "accumulate d%2", "d%3",
                     "gradient of x1", "gradient of x2", "result"]
    assert tape.check().play(2.0, 3.0)[1] == (None, 2.5838531634528574, 2.0)
    assert all(op.where.source for op in tape if isinstance(op, tg.Call) and op.note.startswith("pullback"))


def test_calls_off_the_path_get_no_triple() -> None:
    tape = tg.gradtape(lambda x, y: (np.floor(x) * 2.0 + np.tanh(tg.stop_gradient(y))) * x, 1.5, 2.0)
    text = [repr(op).partition(" = ")[2] for op in tape]
    assert "floor(%2)" in text and "tanh(%6)" in text and not any("rrule(floor" in line or "rrule(tanh" in line for line in text)


def test_the_forward_pass_runs_once() -> None:
    runs: list[str] = []

    @tg.primitive
    def counted(x: float) -> float:
        return x * x

    @tg.rrule(counted)
    def _(x: float) -> Any:
        runs.append("forward")
        return x * x, lambda dy: (2 * x * dy,)
    assert tg.gradient(lambda x: counted(x) * 3, 2.0) == (12.0,) and runs == ["forward"]
    runs.clear()
    tg.gradtape(lambda x: counted(x) * 3, 2.0)
    assert runs == ["forward"]


def test_an_edited_tape_has_another_gradient() -> None:
    _, tape = tg.trace(lambda a, b: a * b, 2.0, 3.0)
    tape.replace(4, tg.call(tg.ops.add, tg.V(2), tg.V(3)))
    assert tg.gradtape(tape).play(2.0, 3.0) == (5.0, (None, 1.0, 1.0))


@pytest.mark.parametrize("n", [10, 20_000])
def test_long_tapes_do_not_recurse(n: int) -> None:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = x * 1.0001
        return x
    _, (_, dx) = tg.grad(f, 1.0)
    assert dx == pytest.approx(1.0001 ** n) and sys.getrecursionlimit() < 20_000
    tape = tg.gradtape(f, 1.0)
    assert tape.check().play(2.0)[1][1] == pytest.approx(dx)


def test_reading_every_element_in_a_loop() -> None:
    def f(x: Any) -> Any:
        total: Any = 0.0
        for i in range(len(x)):
            total = total + x[i] * x[i] * i
        return total
    x = np.linspace(0, 1, 50)
    np.testing.assert_allclose(tg.gradient(f, x)[0], 2 * x * np.arange(50))
    check_grads(f, x[:5], order=2)


class Affine:
    def __init__(self, weights: Any, offset: Any) -> None:
        self.weights, self.offset = weights, offset


def layer(model: Affine, x: Any) -> Any:
    return np.sum(np.tanh(model.weights @ x + model.offset) ** 2)


@pytest.mark.parametrize("stage", [lambda t: t, tg.primitivize, tg.flatgrad, lambda t: tg.optimise(tg.primitivize(t))],
                         ids=["triples", "flat", "flatgrad", "optimised"])
def test_gradient_tapes_are_differentiable_again(stage: Any) -> None:
    model, x = Affine(np.array([[0.5, 0.1], [0.0, 0.4]]), np.ones(2)), np.array([1.0, -2.0])
    tape = stage(tg.trace(layer, model, x)[1] if stage is tg.flatgrad else tg.gradtape(layer, model, x))

    def gradients(model: Affine, x: Any) -> Any:
        value, (_, dmodel, dx) = tape.play(model, x)
        return value + np.sum(dmodel.weights * dmodel.weights) + np.sum(dx)

    def expected(model: Affine, x: Any) -> Any:
        value, (_, dmodel, dx) = tg.grad(layer, model, x)
        return value + np.sum(dmodel.weights * dmodel.weights) + np.sum(dx)
    right, (_, dmodel, dx) = tg.grad(expected, model, x)
    again = tg.gradtape(gradients, model, x)
    for found in (tg.grad(gradients, model, x), again.play(model, x), tg.optimise(tg.primitivize(again)).play(model, x)):
        assert found[0] == pytest.approx(right)
        np.testing.assert_allclose(found[1][1].weights, dmodel.weights, rtol=1e-12)
        np.testing.assert_allclose(found[1][2], dx, rtol=1e-12)


@pytest.mark.parametrize("stage", [lambda t: t, tg.primitivize, lambda t: tg.optimise(tg.primitivize(t))])
def test_the_value_alone_of_a_gradient_tape_is_differentiable(stage: Any) -> None:
    tape = stage(tg.gradtape(lambda p: p["a"] * p["b"] + p["c"][0], {"a": 2.0, "b": 3.0, "c": [1.0]}))
    assert tg.grad(lambda p: tape.play(p)[0], {"a": 2.0, "b": 3.0, "c": [1.0]}) == (7.0, (None, {"a": 3.0, "b": 2.0, "c": [1.0]}))


@pytest.mark.parametrize("make", [tg.gradtape, tg.flatgrad])
@pytest.mark.parametrize("stage", [lambda t: t, tg.primitivize])
def test_a_gradient_tape_has_a_gradient_tape(stage: Any, make: Any) -> None:
    tape = stage(tg.gradtape(lambda a, b: a * b * b, 2.0, 3.0))
    for seed, gradients in (((1.0, None), (None, 9.0, 12.0)), ((None, (None, 1.0, None)), (None, 0.0, 6.0)), ((1.0, (None, 0.0, 1.0)), (None, 15.0, 16.0))):
        assert make(tape, seed=seed).play(2.0, 3.0) == ((18.0, (None, 9.0, 12.0)), gradients)


def recursive(c: float) -> Any:
    def walk(n: int, x: float) -> float:
        return x if n == 0 else c * walk(n - 1, x)
    return walk


def mutual(c: float, d: float) -> Any:
    def even(n: int, x: float) -> float:
        return x if n == 0 else c * odd(n - 1, x)

    def odd(n: int, x: float) -> float:
        return x if n == 0 else d * even(n - 1, x)
    return even


def test_a_closure_that_captures_itself() -> None:
    walk, fast = recursive(2.0), tg.value_and_grad(recursive(2.0), argnums=None)
    expected = (12.0, ({"c": 18.0}, 0.0, 8.0))
    assert [tg.grad(walk, 3, 1.5), tg.gradtape(walk, 3, 1.5).play(3, 1.5), fast(3, 1.5), fast(3, 1.5), fast(3, 1.5)] == [expected] * 5
    assert fast.stats.traces == 1
    assert tg.grad(lambda f, x: f(2, x), walk, 1.5) == (6.0, (None, {"c": 6.0}, 4.0))
    written = exported(tg.gradtape(walk, 3, 1.5))
    assert written(3, 1.5) == expected and written(3, 1.5, c=1.0) == (1.5, ({"c": 4.5}, 0.0, 1.0))


def test_closures_that_capture_each_other() -> None:
    fast = tg.value_and_grad(mutual(2.0, 3.0), argnums=None)
    for _ in range(3):
        assert fast(3, 1.5) == tg.grad(mutual(2.0, 3.0), 3, 1.5) == (18.0, ({"c": 18.0, "odd": {"d": 6.0}}, 0.0, 12.0))


def test_a_recursion_inside_a_traced_function() -> None:
    def outer(x: float) -> float:
        def walk(n: int) -> float:
            return x if n == 0 else 2.0 * walk(n - 1)
        return tg.grad(walk, 2)[1][0]["x"] * x + walk(2)  # type: ignore[no-any-return]
    assert tg.grad(outer, 1.5) == (12.0, (None, 8.0))


SINGULAR = [  # a function, where Python's floats raise in its rule, and the slope there
    (lambda x: np.sin(x) / x, 0.0, math.nan), (lambda x: np.log(x), 0.0, math.inf), (lambda x: x ** 0.5, 0.0, math.inf),
    (math.sqrt, 0.0, math.inf), (lambda x: np.log(x) * x, 0.0, -math.inf), (lambda x: np.log(x), 0, math.inf),
    (lambda x: x ** -1.5, 1e-200, -math.inf),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("f", "x", "slope"), SINGULAR)
def test_a_slope_of_python_numbers_is_nan_or_inf_where_one_of_numpys_is(f: Any, x: Any, slope: float) -> None:
    fast = tg.value_and_grad(f, argnums=None)
    runs = [lambda: tg.grad(f, x), lambda: tg.gradtape(f, x).play(x), lambda: tg.primitivize(tg.gradtape(f, x)).play(x),
            lambda: tg.gradtape(f, x + 1.0).play(float(x)), lambda: fast(x), lambda: fast(x + 1.0), lambda: fast(x + 2.0), lambda: fast(x)]
    for i, run in enumerate(runs):
        if i not in (5, 6):
            dx = run()[1][1]
            assert type(dx) is float and (dx == slope or (dx != dx and slope != slope)), (i, dx)
        else:
            assert math.isfinite(run()[1][1])
    assert not math.isfinite(tg.gradient(lambda y: tg.gradient(f, y)[0], x)[0])


def test_such_a_slope_warns_and_errstate_makes_it_an_error() -> None:
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        tg.grad(math.sqrt, 0.0)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        tg.grad(math.sqrt, 0.0)
    with pytest.raises(ZeroDivisionError):  # a fraction has no infinity
        tg.grad(lambda x: x * x / x, Fraction(0))


RECORDS = np.array([(1, (2.0, 3.0))], [("n", int), ("pair", [("a", float), ("b", float)])])


@pytest.mark.parametrize("run", [tg.grad, tg.gradient, tg.pullback, tg.gradtape, lambda f, *args: tg.value_and_grad(f, argnums=None)(*args)])
@pytest.mark.parametrize("data", [np.array([1.0, None], object), np.array([None, np.ones(3)], object), RECORDS])
def test_numbers_in_an_array_of_objects_or_records_are_not_without_a_gradient_unnoticed(run: Any, data: Any) -> None:
    for args in ((data, 3.0), ([data], 3.0), ({"k": (data, 1.0)}, 3.0)):
        with pytest.raises(tg.ArgumentError, match=r"data.* is an array of (objects|records)"):
            run(lambda data, x: x * 2.0, *args)
    assert tg.grad(lambda x, *, data: x * len(data), 3.0, data=data)[1] == (None, float(len(data)))
    assert tg.trace(lambda data, x: x * len(data), data, 3.0)[0] == 3.0 * len(data)


def test_arrays_without_numbers_are_static() -> None:
    for data in (np.array(["a", None], object), np.array(["a", "b"]), np.array(["2020-01-01", "2021-01-01"], "M8[D]"), RECORDS[["n"]].repeat(2)):
        assert tg.grad(lambda data, x: x * len(data), data, 3.0) == (6.0, (None, None, 2.0))


def test_a_pullback_meets_what_grad_meets_in_memory() -> None:
    def f(a: Any, b: Any) -> Any:
        a[0] = a[1] * 2.0
        return (a * b).sum()

    def locked(x: Any) -> Any:
        x.flags.writeable = False
        return x
    x = np.array([1.0, 2.0, 3.0])
    for a, b in ((x, x), (x, x[::-1]), (x[1:], x[:2])):
        with pytest.raises(tg.MutationError, match="shares memory"):
            tg.pullback(f, a, b)
        value, back = tg.pullback(lambda a, b: (a * b).sum(), a, b)
        assert value == (a * b).sum() and np.array_equal(back(1.0)[1], b) and np.array_equal(back(1.0)[2], a)
    for given in (locked(x.copy()), np.broadcast_to(1.5, (3,))):
        with pytest.raises(ValueError, match="read-only"):
            tg.pullback(f, given, x.copy())


@pytest.mark.parametrize("n", [2, 40])
def test_the_seed_of_many_results_is_taken_apart_once(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, apart = [], Structure.unmirror

    def unmirror(self: Structure, *args: Any, **kwargs: Any) -> Any:
        taken.append(self)
        return apart(self, *args, **kwargs)
    monkeypatch.setattr(Structure, "unmirror", unmirror)
    value, (_, dx) = tg.grad(lambda x: [x * i for i in range(n)], 2.0, seed=[1.0] * n)
    assert (len(value), dx) == (n, sum(range(n)))
    assert len(taken) == 2  # to look at it, and in the sweep: for each result it took n steps for each


def inverse_or_zero(x: Any) -> Any:
    try:
        return x / (x - 2.0)
    except ZeroDivisionError:
        return x * 0.0


def strictly(x: Any) -> Any:
    with np.errstate(all="raise"):
        try:
            return (1.0 / x).sum()
        except FloatingPointError:
            return x.sum() * 0.0


STEERED: list[tuple[Any, Any, Any]] = [
    (lambda x: x * x if x > 0 else -x, 2.0, -2.0), (lambda x: x.sum() if x.shape[0] > 2 else x.prod(), np.ones(3), np.ones(2)),
    (inverse_or_zero, 2.0, 3.0), (strictly, np.ones(2), np.zeros(2)), (lambda x: x[int(x[0])], np.array([1.0, 2.0]), np.array([0.0, 2.0]))]


@pytest.mark.parametrize("f, given, other", STEERED)
def test_what_steers_a_gradient_within_a_trace_is_guarded_by_that(f: Any, given: Any, other: Any) -> None:
    tape = tg.trace(lambda x: tg.gradient(f, x)[0], given)[1]
    np.testing.assert_array_equal(tape.play(given), tg.gradient(f, given)[0])
    with pytest.raises(tg.GuardError), np.errstate(all="ignore"):
        tape.play(other)


@pytest.mark.parametrize("f, given, other", STEERED)
def test_a_tape_that_nobody_replays_has_no_guards(f: Any, given: Any, other: Any) -> None:
    tapes = [record(f, (given,), {}, DEFAULT, grad=True, replays=replays) for replays in (True, False)]
    guards = [[op for op in tape if isinstance(op, Guard)] for tape in tapes]
    assert guards[0] and not guards[1]
    assert [op.fn for op in tapes[1] if isinstance(op, tg.Call)] == [op.fn for op in tapes[0] if isinstance(op, tg.Call) and op.fn is not ops.pack]


@pytest.mark.parametrize("f", [lambda x: 1.87 * np.frexp(x)[0], lambda x: np.ldexp(x, np.int32(2)) * 1.5, lambda x: math.ldexp(x, 2) * np.float64(1.5), lambda x: 1.5 * np.modf(x)[0]])
def test_a_function_of_maths_is_called_with_what_it_takes(f: Any) -> None:
    tape = tg.gradtape(f, 0.955)
    expected = tg.grad(f, 0.955)
    for played in (tape, tg.primitivize(tape), tg.flatgrad(tg.trace(f, 0.955)[1]), tg.optimise(tg.primitivize(tape))):
        assert played.play(0.955) == expected


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_an_output_of_one_element_needs_no_seed(shape: tuple[int, ...]) -> None:
    def f(x: Any) -> Any:
        return x ** 2
    x = np.full(shape, 3.0)
    for value, (_, dx) in (tg.grad(f, x), tg.value_and_grad(f, argnums=None, warmup=1)(x), tg.gradtape(f, x).play(x), tg.compile(tg.flatgrad(tg.trace(f, x)[1]))(x)):
        np.testing.assert_array_equal(value, 9.0 * np.ones(shape))
        np.testing.assert_array_equal(dx, 6.0 * np.ones(shape))
    with pytest.raises(tg.ArgumentError, match="needs a seed"):
        tg.grad(lambda x: x * 1j, x)


def test_a_keyword_may_have_the_functions_name() -> None:
    assert tg.grad(lambda x, f=1.0: x * f, 2.0, f=3.0) == (6.0, (None, 3.0))
    assert tg.trace(lambda x, f=1.0: x * f, 2.0, f=3.0)[0] == tg.gradtape(lambda x, f=1.0: x * f, 2.0, f=3.0).play(2.0, f=3.0)[0] == 6.0


class InMetres:
    """A descriptor that converts what it is assigned, and keeps it under its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, cls: type) -> Any:
        return vars(owner)[self.name]

    def __set__(self, owner: Any, value: Any) -> None:
        vars(owner)[self.name] = value * 1000.0


class Track:
    length = InMetres()

    def __init__(self, kilometres: Any) -> None:
        self.length = kilometres


def test_the_attributes_of_a_copy_are_not_converted_again() -> None:
    track = Track(2.0)
    value, (dtrack, dx) = tg.grad(lambda x: track.length * x, 3.0)
    assert (value, dx, dtrack["track"].length) == (6000.0, 2000.0, 3.0)
    assert tg.gradient(lambda t: t.length * 2, track)[0].length == 2.0
    assert tg.gradient(lambda x: Track(x).length * 2, 3.0) == (2000.0,)


def test_an_array_of_records_whose_class_says_that_it_holds_numbers() -> None:
    class Polynomial(np.ndarray):
        dtype = property(lambda self: np.dtype(float))

        def __array_finalize__(self, obj: Any) -> None:
            self.names = obj.names

    records = np.zeros(2, [("a", float)]).view(type("Named", (np.ndarray,), {"names": "a"}))
    polynomial = records.view(Polynomial)
    with pytest.raises(tg.UnknownFunction, match="operators may differ from"):
        tg.grad(lambda x: x * len(polynomial.names), 2.0)


def test_an_array_is_made_of_what_an_object_shows_itself_as() -> None:
    class Frame:
        def __init__(self, values: Any) -> None:
            self.values = values

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.values

    def f(x: Any) -> Any:
        return np.diag(Frame(x)).sum() + np.copy(Frame(x))[0, 1]
    value, (_, dx) = tg.grad(f, np.arange(4.0).reshape(2, 2))
    assert value == 4.0
    np.testing.assert_array_equal(dx, [[1.0, 1.0], [0.0, 1.0]])


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_the_value_is_the_callers_own_before_the_sweep(make: Any) -> None:
    exp = np.exp if make is np.array else torch.exp
    x, y = make([0.3, 1.2]), make([1.0, 2.0])

    def of(run: Any) -> Any:
        r, back = run(exp)
        r -= y
        return back, r * 1
    back, r = of(lambda f: tg.vjp(f, x))
    expected = (exp(x) - y) * exp(x)
    np.testing.assert_allclose(back(r)[0], expected)
    back, r = of(lambda f: tg.pullback(f, x))
    np.testing.assert_allclose(back(r)[1], expected)
    push, r = of(lambda f: tg.linearize(f, x))
    np.testing.assert_allclose(push(r), expected)
    _, back, aux = tg.vjp(lambda x: (x.sum() * 0 + exp(x).sum(), exp(x)), x, has_aux=True)
    aux *= 0
    np.testing.assert_allclose(back(1.0 if make is np.array else make(1.0))[0], exp(x))

    def residual(x: Any) -> Any:
        back, r = of(lambda f: tg.vjp(f, x))
        return back(r)[0]
    np.testing.assert_allclose(tg.trace(residual, x)[0], expected)
    np.testing.assert_allclose(tg.compile(residual)(x), expected)


NUMBERS = [3, 1.5, np.float64(1.5), np.float32(1.5), np.array(1.5), np.array([1.5, 2.0]), 1.5 + 0.0j]


@pytest.mark.parametrize("x", NUMBERS, ids=repr)
@pytest.mark.parametrize("g", [lambda z: np.abs(np.sum(z)) ** 2, lambda z: 1.0, lambda z: np.sum(np.sin(z) * z).real], ids=["abs", "one", "sin"])
def test_derivatives_inside_a_trace_have_the_types_of_those_outside(g: Any, x: Any) -> None:
    def f(x: Any) -> Any:
        return tg.gradient(g, x), tg.value_and_grad(g)(x), tg.vjp(g, x)[1](1.0), tg.jvp(g, (x,), (x * 1.0,))

    def kinds(found: Any) -> Any:
        return [[(type(part), np.shape(part)) for part in parts] for parts in found]
    fast = tg.compile(f)
    assert kinds(tg.trace(f, x)[0]) == kinds(f(x))
    for _ in range(3):
        assert kinds(fast(x)) == kinds(f(x))
