"""Forward mode: programs, tapes, nesting, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.rules.facts import Linear
from tapegrad.rules.op import OPS
from tapegrad.tree.flatten import leaves_of
from tests.harness.sample import Sample
from tests.harness.table import tangent


def test_every_op_has_a_tangent() -> None:
    without = sorted(name for name, op in OPS.items() if op.differentiable and not (op.pointwise or op.tangent or op.has_rule))
    assert not without, f"ops of which no tangent can be made: {', '.join(without)}"


def test_a_pointwise_op_has_partials_and_no_linear_op_is_pointwise() -> None:
    wrong = sorted(name for name, op in OPS.items() if op.pointwise and (op.partials is None or isinstance(op.tangent, Linear)))
    assert not wrong


# -- programs

X, V = np.array([0.3, 1.2, -0.7, 2.0]), np.array([1.0, -2.0, 0.5, 0.25])


def filled(x: Any) -> Any:
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = y[i - 1] * x[i]
    return y


def through_views(x: Any) -> Any:
    y = x.reshape(2, 2).copy()
    y.T[0] *= x[:2]
    tail = y.reshape(-1)[1:]
    tail += np.sin(tail)
    return y


def in_fortran_order(x: Any) -> Any:
    y = np.asfortranarray(x.reshape(2, 2))
    flat = y.T.reshape(-1)
    flat[1] = x[3] ** 2
    flat[1:3] *= flat[0]
    return y


def read_before_written(x: Any) -> Any:
    y = x * 2
    y[0] = x[1]
    row = y[:2]
    kept = +y
    y[0] = x[2] ** 2
    return row.sum() * kept, y


def overwritten(x: Any) -> Any:
    y = x * 2
    y[:] = 1.0
    y[1] = x[0]
    return y


def scattered(x: Any) -> Any:
    y = x.copy()
    y[np.array([0, 2, 0])] = x[1:] ** 2
    y[x > 1] *= 3
    return y


def accumulated(x: Any) -> Any:
    y = np.zeros((2, 2))
    np.add.at(y, (np.array([0, 1, 0, 0]), np.array([1, 1, 1, 0])), x * x)
    return y


def branching(x: Any) -> Any:
    total = 0.0
    for part in x:
        total = total + (part ** 2 if part > 0 else -3.0 * part)
    return total


PROGRAMS = [filled, through_views, in_fortran_order, read_before_written, overwritten, scattered, accumulated, branching]


@pytest.mark.parametrize("f", PROGRAMS)
def test_writes_views_and_branches(f: Callable[[Any], Any]) -> None:
    tangent(Sample(f, (X,)))
    value, push = tg.linearize(f, X)
    for v in (V, 2 * V, V):  # a sweep leaves nothing behind
        same((value, push(v)), tg.jvp(f, (X,), (v,)))


def same(a: Any, b: Any) -> None:
    for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
        assert type(x) is type(y)
        np.testing.assert_allclose(x, y, 1e-12, 1e-14)


def test_the_callers_arrays_are_left_alone() -> None:
    x, v = X.copy(), V.copy()
    _y, t = tg.jvp(lambda x: x, (x,), (v,))
    t[:] = 7.0
    assert np.array_equal(v, V)
    _, t = tg.jvp(overwritten, (x,), (v,))
    assert np.array_equal(v, V) and np.array_equal(x, X)


def test_filling_an_array_takes_linear_time(monkeypatch: Any) -> None:
    copies = []
    import tapegrad.transforms.tangents as tangents
    monkeypatch.setattr(tangents, "_zeros", lambda x, *how, old=tangents._zeros: copies.append(x) or old(x, *how))
    n = 300

    def fill(x: Any) -> Any:
        y = np.zeros(n)
        for i in range(n):
            y[i] = x * i
        return y
    _, t = tg.jvp(fill, (2.0,), (1.0,))
    assert np.array_equal(t, np.arange(n)) and len(copies) == 1


def test_a_branch_is_guarded_on_the_tape() -> None:
    tape = tg.forwardtape(lambda x: x * x if x > 0 else -x, 2.0)
    assert tape.play(3.0, 1.0) == (9.0, 6.0)
    with pytest.raises(tg.GuardError):
        tape.play(-3.0, 1.0)


def test_a_draw_is_the_same_for_value_and_tangent() -> None:
    def noisy(x: Any, rng: Any) -> Any:
        return x * rng.normal(size=3)
    y, t = tg.jvp(noisy, (2.0, np.random.default_rng(1)), (1.0, None))
    np.testing.assert_allclose(y, 2 * t)
    tape = tg.forwardtape(noisy, 2.0, np.random.default_rng(1))
    y, t = tape.play(3.0, np.random.default_rng(5), 1.0, None)
    np.testing.assert_allclose(y, 3 * t)
    np.testing.assert_allclose(t, np.random.default_rng(5).normal(size=3))


def test_loops_are_unrolled() -> None:
    def orbit(x: Any, v: Any) -> Any:
        for _ in range(50):
            v = v - 0.1 * np.sin(x)
            x = x + 0.1 * v
        return x
    rolled = tg.roll(tg.trace(orbit, 1.0, 0.0)[1], saved=0)
    assert len(rolled) < 20
    assert tg.forwardtape(rolled).play(1.0, 0.5, 1.0, 2.0) == pytest.approx(tg.jvp(orbit, (1.0, 0.5), (1.0, 2.0)))


def test_nesting() -> None:
    def f(p: Any, n: int, on: bool) -> Any:
        return {"a": p["w"] @ p["x"][0], "b": (p["x"][0] * n, on, "text", None), "c": 3}
    p = {"w": np.ones((2, 2)), "x": [np.arange(2.0), "name"]}
    _y, t = tg.jvp(f, (p, 2, True), ({"w": None, "x": [np.ones(2), None]}, None, None))
    assert np.array_equal(t["a"], [2.0, 2.0]) and np.array_equal(t["b"][0], [2.0, 2.0]) and t["b"][1:] == (None, None, None) and t["c"] == 0.0
    tape = tg.forwardtape(f, p, 2, True)
    played = tape.play(p, 2, True, {"w": np.zeros((2, 2)), "x": [np.ones(2), None]}, 0.0, None)
    assert np.array_equal(played[1]["a"], t["a"])


def test_integers_have_real_tangents_as_they_have_gradients() -> None:
    assert tg.jvp(lambda n: n * n, (3,), (1.0,)) == (9, 6.0)
    y, t = tg.jvp(lambda x: x.astype(int) * 2, (X,), (V,))
    assert y.dtype == int and not t.any()


def test_single_precision_stays() -> None:
    x = X.astype(np.float32)
    _y, t = tg.jvp(lambda x: np.sin(x) * 2 + x.sum(), (x,), (V,))
    assert t.dtype == np.float32


def test_kinds_of_the_tangent_are_those_of_the_value() -> None:
    for f in (lambda x: x * x, lambda x: math.sin(x), lambda x: np.sin(x)):
        y, t = tg.jvp(f, (2.0,), (1.0,))
        assert type(t) is type(y)


# -- orders


def test_perturbations_are_not_confused() -> None:
    def inner(x: Any) -> Any:
        return tg.jvp(lambda y: x + y, (1.0,), (1.0,))[1]
    assert tg.jvp(lambda x: x * inner(x), (1.0,), (1.0,)) == (1.0, 1.0)  # Siskind and Pearlmutter 2005
    assert tg.gradient(lambda x: x * inner(x), 1.0) == (1.0,)
    assert tg.jvp(lambda x: x * tg.gradient(lambda y: x + y, 1.0)[0], (1.0,), (1.0,)) == (1.0, 1.0)
    assert tg.jvp(lambda x: tg.jvp(lambda y: x * y, (2.0,), (x,))[1], (3.0,), (1.0,)) == (9.0, 6.0)


def test_forward_over_reverse_and_reverse_over_forward() -> None:
    def f(x: Any) -> Any:
        return (filled(np.sin(x)) ** 2).sum() + np.linalg.det(np.outer(x, x) + np.eye(4))
    forward = tg.jvp(lambda x: tg.gradient(f, x)[0], (X,), (V,))[1]
    backward = tg.gradient(lambda x: tg.jvp(f, (x,), (V,))[1], X)[0]
    twice = tg.gradient(lambda x: (tg.gradient(f, x)[0] * V).sum(), X)[0]
    np.testing.assert_allclose(forward, twice, 1e-9)
    np.testing.assert_allclose(backward, twice, 1e-9)
    tape = tg.forwardtape(tg.gradtape(f, X))
    (_value, (_, dx)), (slope, (_, along)) = tape.play(X, V)
    np.testing.assert_allclose(along, twice, 1e-9)
    np.testing.assert_allclose(slope, (dx * V).sum(), 1e-9)


def test_third_order() -> None:
    def d(f: Any) -> Any:
        return lambda x: tg.jvp(f, (x,), (1.0,))[1]
    assert d(d(d(lambda x: x ** 4)))(2.0) == pytest.approx(48.0)
    assert d(d(d(np.sin)))(0.5) == pytest.approx(-math.cos(0.5))


def test_a_forward_tape_is_a_tape() -> None:
    tape = tg.forwardtape(lambda a, b: a / (a + b * b), 2.0, 3.0)
    notes = [op.note for op in tape if op.note]
    assert "tangent of %2" in notes and "tangent of %6" in notes
    for style in ("table", "compact", "tree", "summary", "python"):
        tape.show(style)
    assert "tangent of" in str(tape) and "tangent of" in tape.to_svg()
    assert tg.optimise(tape).check().play(2.0, 3.0, 1.0, 0.0) == tape.play(2.0, 3.0, 1.0, 0.0)
    assert tg.compile(tape)(2.0, 3.0, 1.0, 0.0) == pytest.approx(tape.play(2.0, 3.0, 1.0, 0.0))
    _value, (_df, *dargs) = tg.gradtape(tape, seed=(0.0, 1.0)).play(2.0, 3.0, 1.0, 0.5)
    assert dargs[2] == pytest.approx(tape.play(2.0, 3.0, 1.0, 0.0)[1])


def test_a_tape_made_by_hand() -> None:
    tape = tg.Tape()
    a, b = tape.push(tg.Input(2.0, "a")), tape.push(tg.Input(3.0, "b"))
    tape.result = tape.push(tg.call(tg.ops.multiply, a, b))
    assert tg.forwardtape(tape).play(2.0, 3.0, 1.0, 10.0) == (6.0, 23.0)


def test_a_saved_tape(tmp_path: Any) -> None:
    tg.forwardtape(through_views, X).save(tmp_path / "f.tape")
    same(tg.load(tmp_path / "f.tape").play(X, V), tg.jvp(through_views, (X,), (V,)))


def test_captured_values_are_constant() -> None:
    a = 3.0
    assert tg.jvp(lambda x: a * x, (2.0,), (1.0,)) == (6.0, 3.0)
    _value, push = tg.linearize(lambda x: X * x, 2.0)
    np.testing.assert_allclose(push(1.0), X)


def test_linearize_keeps_what_it_was_given() -> None:
    x = X.copy()
    _, push = tg.linearize(lambda x: x ** 2, x)
    x[:] = 0.0
    np.testing.assert_allclose(push(V), 2 * X * V)


# -- rules of users


@tg.primitive
def sorted_twice(x: Any) -> Any:
    return 2 * np.sort(x)


@tg.rrule(sorted_twice)
def _(x: Any) -> Any:
    order = np.argsort(x)

    def pullback(dy: Any) -> Any:
        dx = np.zeros(len(x))
        dx[order] = 2 * dy
        return (dx,)
    return sorted_twice(x), pullback


@tg.primitive
def by_c(x: Any) -> Any:
    return 2 * x


@tg.rrule(by_c)
def _(x: Any) -> Any:
    return by_c(x), lambda dy: (np.array([2.0 * float(part) for part in dy]),)


def test_a_users_rule_is_transposed() -> None:
    tangent(Sample(lambda x: sorted_twice(x * x), (X,)))
    assert tg.jvp(lambda x: 3 * sorted_twice(x), (X,), (V,))[1].shape == X.shape


@tg.primitive
def mixed(xs: Any, scale: Any) -> Any:
    return {"sum": xs[0] * scale + xs[1]["y"], "first": xs[0][0] ** 2}


@tg.rrule(mixed)
def _(xs: Any, scale: Any) -> Any:
    def pullback(dz: Any) -> Any:
        flat, first = dz["sum"], dz["first"]
        dx = flat * scale
        dx = dx + first * 2 * xs[0] * (np.arange(len(xs[0])) == 0)
        return [dx, {"y": flat}], (flat * xs[0]).sum()
    return mixed(xs, scale), pullback


def test_a_users_rule_of_nested_arguments_and_results() -> None:
    def f(x: Any, scale: Any) -> Any:
        y = x * 2
        y[1] = scale
        z = mixed([y, {"y": x}], scale)
        y[0] = 7.0
        return z["sum"] * y, z["first"]
    tangent(Sample(f, (X, 1.5)))


def test_a_tangent_of_integers_is_taken_as_real() -> None:
    for v in ([1, 0, 2, 0], np.array([1, 0, 2, 0]), np.array([1.0, 0.0, 2.0, 0.0], np.float32)):
        np.testing.assert_allclose(tg.jvp(lambda x: x ** 2 / 3, (X,), (v,))[1], 2 * X * [1, 0, 2, 0] / 3)
        np.testing.assert_allclose(tg.jvp(lambda x: x ** 2 / 3, (np.arange(4),), (v,))[1], 2 * np.arange(4) * [1, 0, 2, 0] / 3)
    assert tg.jvp(lambda x: x * 0.5, (2.0,), (True,))[1] == 0.5


def test_a_pullback_that_calls_c_is_called_for_each_number_and_refused_at_the_users_line_where_that_cannot_be() -> None:
    np.testing.assert_allclose(tg.jvp(lambda x: by_c(x) + 1, (X,), (V,))[1], 2 * V)
    with pytest.raises(tg.MissingRule, match="the rule of by_c must be differentiated") as caught:
        tg.jvp(lambda x: by_c(x.astype(np.float32)) + 1, (X,), (V,))
    assert caught.value.where is not None and caught.value.where.file == __file__


def test_a_function_without_a_rule_is_refused() -> None:
    without = tg.primitive(lambda x: x * 2)
    with pytest.raises(tg.MissingRule):
        tg.jvp(without, (X,), (V,))


# -- errors

WRONG: list[tuple[Any, Any, str]] = [
    ((X,), (V[:2],), r"the tangent of x has shape \(2,\), but x has \(4,\)"), ((X,), (1.0,), r"has shape \(\), but x has \(4,\)"),
    ((X,), (V * 1j,), "the tangent of x is complex, but x is real"), ((X,), ("up",), "the tangent of x is 'up'"),
    ((X,), (V, V), "2 tangents for 1 argument\n"), ((X,), V, "the tangents are"), (X, (V,), "the arguments are"),
    ((True,), (1.0,), "argument 1 is a bool, which has no tangent"), (([X],), ([V, V],), "nesting of the tangent of argument 1 differs"),
]


@pytest.mark.parametrize(("args", "tangents", "message"), WRONG)
def test_a_tangent_that_does_not_fit_is_refused(args: Any, tangents: Any, message: str) -> None:
    with pytest.raises(tg.ArgumentError, match=message):
        tg.jvp(lambda x: x, args, tangents)


# -- torch


def layers(x: Any, w: Any, b: Any) -> Any:
    h = torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b))
    h = torch.nn.functional.layer_norm(h, h.shape[-1:])
    h[:, 0] *= 2
    return torch.softmax(h, -1), h.cumsum(0).logsumexp(-1)


def test_torch() -> None:
    torch.manual_seed(0)
    args = torch.randn(3, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    tangents = tuple(map(torch.randn_like, args))
    y, t = tg.jvp(layers, args, tangents)
    expected = torch.func.jvp(lambda x, w, b: layers(x.clone(), w, b), args, tangents)
    for a, b in zip(leaves_of((y, t)), leaves_of(expected), strict=True):
        torch.testing.assert_close(a, b)
    tape = tg.forwardtape(layers, *args)
    for a, b in zip(leaves_of(tape.play(*args, *tangents)), leaves_of(expected), strict=True):
        torch.testing.assert_close(a, b)


def test_a_numpy_tape_plays_on_tensors() -> None:
    tape = tg.forwardtape(through_views, X)
    for a, b in zip(tape.play(torch.tensor(X), torch.tensor(V)), tg.jvp(through_views, (X,), (V,)), strict=True):
        np.testing.assert_allclose(a.numpy(), b)


def test_a_module() -> None:
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1)).double()
    x = torch.randn(5, 4, dtype=torch.float64)
    tangents = {name: torch.randn_like(p) for name, p in m.named_parameters()}
    _y, t = tg.jvp(lambda m, x: m(x), (m.eval(), x), (tangents, None))
    expected = torch.func.jvp(lambda p: torch.func.functional_call(m, p, (x,)), (dict(m.named_parameters()),), (tangents,))
    torch.testing.assert_close(t, expected[1].detach())


# -- examples of others: JAX's "autodiff cookbook", autograd's test of jvps, in plain NumPy


def test_jax_cookbook() -> None:
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal(3), rng.standard_normal()
    inputs = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])

    def f(w: Any) -> Any:
        return 0.5 * (np.tanh((inputs @ w + b) / 2) + 1)
    v = rng.standard_normal(3)
    y, u = tg.jvp(f, (w,), (v,))
    np.testing.assert_allclose(u, y * (1 - y) * (inputs @ v))


def test_autograd_jvp_of_a_nested_program() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"product": np.outer(x, y), "norms": (np.linalg.norm(x), np.linalg.norm(y))}
    tangent(Sample(f, (X, V)))


def test_a_forward_rule_of_the_users() -> None:
    @tg.primitive
    def g(x: Any, y: Any) -> Any:
        return x * x * y

    @tg.frule(g)
    def _(x: Any, y: Any) -> Any:
        def g_pushforward(dx: Any, dy: Any) -> Any:
            return (0.0 if dx is None else 2 * x * y * dx) + (0.0 if dy is None else x * x * dy)
        return g(x, y), g_pushforward

    assert tg.jvp(g, (2.0, 3.0), (1.0, None)) == (12.0, 12.0)
    assert tg.jvp(g, (2.0, 3.0), (1.0, 1.0)) == (12.0, 16.0)
    assert tg.jvp(lambda x: tg.jvp(lambda x: g(x, x), (x,), (1.0,))[1], (3.0,), (1.0,)) == (27.0, 18.0)
    value, push = tg.frule(g, 2.0, 3.0)
    assert (value, push(1.0, None)) == (12.0, 12.0)
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.jacobian(lambda x: g(x, x), mode="forward")(x), np.diag(3 * x * x))
    np.testing.assert_allclose(tg.vmap(lambda x: tg.jvp(lambda x: g(x, 2.0), (x,), (1.0,))[1])(x), 4 * x)
    assert tg.jvp(lambda x: g(x, x), (torch.tensor(x),), (torch.ones(2, dtype=torch.float64),))[1].tolist() == [3.0, 12.0]
    fast = tg.compile(lambda x: tg.jvp(lambda x: g(x, x), (x,), (np.ones(2),))[1], warmup=1)
    for _ in range(3):
        assert fast(x).tolist() == [3.0, 12.0]
    with pytest.raises(tg.MissingRule):
        tg.grad(g, 2.0, 3.0)
    for taken in (g, tg.ops.sin, tg.ops.sum, np.var):
        with pytest.raises(tg.DuplicateRule):
            tg.frule(taken)(lambda *args: None)
    with pytest.raises(tg.MissingRule, match="no forward rule"):
        tg.frule(tg.ops.sin, 1.0)


def test_a_forward_rule_may_write_to_nothing() -> None:
    @tg.primitive
    def g(x: Any) -> Any:
        return 2 * x

    @tg.frule(g)
    def _(x: Any) -> Any:
        x[0] = 0
        return g(x), lambda dx: 2 * dx
    with pytest.raises(tg.MutationError):
        tg.jvp(g, (np.ones(2),), (np.ones(2),))


@pytest.mark.parametrize("shapes", [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (2, 3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (3, 2))])
def test_solving_a_system_along_either_side(shapes: Any) -> None:
    rng = np.random.default_rng(0)
    a, b, da, db = (rng.normal(size=shape) for shape in (*shapes, *shapes))
    a += 3 * np.eye(3)
    for along in ((da, None), (None, db), (da, db)):
        there, back = (np.linalg.solve(*[x if d is None else x + step * d for x, d in zip((a, b), along)]) for step in (1e-6, -1e-6))
        np.testing.assert_allclose(tg.jvp(np.linalg.solve, (a, b), along)[1], (there - back) / 2e-6, 1e-6, 1e-7)
        tensors = tg.jvp(np.linalg.solve, (torch.tensor(a), torch.tensor(b)), [None if d is None else torch.tensor(d) for d in along])[1]
        np.testing.assert_allclose(tensors, (there - back) / 2e-6, 1e-6, 1e-7)


def test_a_linear_tape_is_transposed() -> None:
    x, a, dy = np.array([0.5, 1.0, 2.0]), 2.0, {"y": np.array([1.0, -1.0]), "sum": 0.5}

    def f(x: Any, a: Any) -> Any:
        y = np.sin(a * x[1:]) * x[:-1]
        return {"y": y, "sum": y.sum() if a > 1 else a}
    along = tg.trace(tg.linearize(f, x, a)[1], x, a)[1]
    back = tg.transpose(along)
    np.testing.assert_allclose(np.hstack(back.play(dy)), np.hstack(tg.gradient(f, x, a, seed=dy)))
    again = tg.transpose(back)
    np.testing.assert_allclose(again.play((x, np.float64(a)))[0]["y"], along.play(x, a)["y"])
    matrix = np.array([[1.0, 2j], [3.0, 4.0]])
    z, w = np.array([1j, 2.0]), np.array([1.0, 1.0 + 1j])
    (found,) = tg.transpose(tg.trace(lambda z: matrix @ z, z)[1]).play(w)
    np.testing.assert_allclose(found, matrix.conj().T @ w)


@pytest.mark.parametrize("f", [np.sin, lambda x: x + 1.0, abs, lambda x: 2 * x if x > 0 else x, lambda x: x * tg.stop_gradient(x)])
def test_what_is_not_linear_is_not_transposed(f: Callable[..., Any]) -> None:
    with pytest.raises(tg.ArgumentError, match="is not linear"):
        tg.transpose(tg.trace(f, 2.0)[1])
