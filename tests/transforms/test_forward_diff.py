"""forwarddiff: the same values and gradients as without, by derivatives that are computed along, on every way that a tape can go."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tests.harness.compare import assert_close
from tests.harness.run import peak
from tests.transforms.test_checkpoint import PROGRAMS, X, assert_same, capturing, filling, layers, plainly, writing

OWN: list[tuple[Callable[[Any], Any], tuple[Any, ...]]] = [
    (lambda wrap: lambda x, k: (wrap(lambda x, k: np.sin(k * x) * np.exp(-x))(x, k) * x).sum(), (X, 2.0)),
    (lambda wrap: lambda a, b: math.sin(wrap(lambda a, b: (a * b, a / b))(a, b)[0]) + wrap(lambda a, b: (a * b, a / b))(a, b)[1], (2.0, 3.0)),
    (lambda wrap: lambda a: wrap(lambda a: a * np.arange(6.0).reshape(2, 3) + np.ones((2, 3)))(a).sum() * a, (np.float64(2.0),)),
    (lambda wrap: lambda x: (wrap(lambda x: np.outer(x, x) @ x.reshape(3, 1))(x) ** 2).sum(), (X,)),
    (lambda wrap: lambda x: wrap(lambda x, s, flag: {"a": [x["p"] * s, None], "b": x["q"] if flag else 0})({"p": x, "q": x[0]}, 2, True)["a"][0].sum(),
     (X,)),
    (lambda wrap: lambda x, n: wrap(lambda x, n: x ** n)(x, n).sum(), (X + 2.0, 3)),
    (lambda wrap: lambda x: wrap(lambda x: (x > 0).sum() + (x[x > 0] ** 2).sum())(x) * 1.0, (X,)),
    (lambda wrap: lambda x: (abs(wrap(lambda x: np.exp(1j * x) * x)(x) + 1.0) ** 2).sum(), (X,)),
    (lambda wrap: lambda x: wrap(lambda x: np.sort(x) * x)(x).sum(), (X.astype(np.float32),)),
]


@pytest.mark.parametrize(("program", "args"), PROGRAMS + OWN)
def test_it_changes_nothing(program: Any, args: tuple[Any, ...]) -> None:
    f, g = program(tg.forwarddiff), program(plainly)
    expected, tape = tg.grad(g, *args), tg.trace(f, *args)[1].check()
    assert_same(f(*args), g(*args))
    loose = (2e-6, 2e-6) if any(getattr(x, "dtype", None) == np.float32 for x in args) else (1e-12, 1e-13)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for found in (tg.grad(f, *args), tg.gradtape(f, *args).play(*args), tg.flatgrad(tape).play(*args), tg.primitivize(tg.gradtape(f, *args)).play(*args),
                  tg.flatgrad(tg.optimise(tape)).play(*args), *[step(*args) for _ in range(3)]):
        close(found, expected, *loose)
    assert step.stats.hits >= 2, step.stats.guards  # type: ignore[attr-defined]


def close(found: Any, expected: Any, rtol: float, atol: float) -> None:
    from tapegrad.tree.flatten import leaves_of
    for x, y in zip(leaves_of(found), leaves_of(expected), strict=True):
        assert type(x) is type(y) and getattr(x, "dtype", None) == getattr(y, "dtype", None)
        np.testing.assert_allclose(x, y, rtol, atol)


@pytest.mark.quick
def test_a_call_carries_its_derivatives() -> None:
    tape = tg.trace(lambda x: tg.forwarddiff(lambda x: np.sin(np.sin(x)))(x).sum(), X)[1]
    assert "forwarddiff(<lambda>)(%2)" in str(tape) and "# tangent of %4" in str(tape) and "with_jacobian(%" in str(tape)
    flat = [op.fn.__name__ for op in tg.flatgrad(tape) if op.kind == "call"]
    assert flat.count("forwarddiff(<lambda>)") == 1 and "cos" not in flat  # nothing is computed again
    assert "with_jacobian" not in tape.to_python() + tg.flatgrad(tape).to_python()
    assert "cos" not in tape.to_python()


def along(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *rest: tg.hvp(f)(x, X, *rest)


def tangent(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *rest: tg.jvp(f, (x, *rest), (X, *[1.0 for _ in rest]))


def test_derivatives_of_any_order() -> None:
    for program, args in ((layers, (X,)), (capturing, (X,)), OWN[0], OWN[3]):
        f, g = program(tg.forwarddiff), program(plainly)
        for derivative in (tg.hessian, along, lambda f: tg.jacobian(tg.jacobian(f)), lambda f: tg.jacobian(f, mode="forward"), tangent):
            assert_close(derivative(f)(*args), derivative(g)(*args), 1e-11, 1e-12)
    third = [tg.gradient(lambda x, h=h: tg.gradient(lambda x: tg.gradient(h, x)[0], x)[0], 0.5)[0]
             for h in (tg.forwarddiff(lambda x: math.exp(x * x)), lambda x: math.exp(x * x))]
    assert third[0] == pytest.approx(third[1], rel=1e-12)
    nested = tg.forwarddiff(lambda x: tg.gradient(tg.forwarddiff(lambda x: np.sin(x) ** 2), x)[0])
    assert tg.gradient(nested, 0.5)[0] == pytest.approx(2 * math.cos(1.0), rel=1e-12)


def test_power_series() -> None:
    def f(x: Any) -> Any:
        return np.exp(np.sin(x)) * x
    np.testing.assert_allclose(tg.taylor(tg.forwarddiff(f), 0.5, 4), tg.taylor(f, 0.5, 4), 1e-12)
    np.testing.assert_allclose(tg.taylor(tg.forwarddiff(f), X, 3), tg.taylor(f, X, 3), 1e-12)


def test_numbers_of_other_kinds() -> None:
    def cube(a: Any) -> Any:
        return a * a * a
    assert tg.gradient(tg.forwarddiff(cube), Fraction(1, 3)) == (Fraction(1, 3),)
    assert tg.gradient(lambda a: tg.gradient(tg.forwarddiff(cube), a)[0], Decimal("0.5")) == (Decimal("3.0"),)
    assert tg.holomorphic_derivative(tg.forwarddiff(cube))(1j) == -3
    assert tg.gradient(lambda n: tg.forwarddiff(cube)(n), 3) == (27.0,)
    half = tg.gradient(lambda x: tg.forwarddiff(np.sin)(x).sum(), X.astype(np.float16))[0]
    assert half.dtype == np.float16
    n, x = tg.gradient(lambda n, x: tg.forwarddiff(lambda n, x: x[n] * x[n])(n, x).sum(), np.array([0, 2]), X)
    np.testing.assert_allclose(x, [0.6, 0.0, -2.0])
    assert not n.any()


def test_branches_and_errors_that_the_program_catches() -> None:
    def f(x: Any) -> Any:
        try:
            return tg.forwarddiff(lambda x: math.sqrt(x) * x if x < 4 else x)(x - 5.0)
        except ValueError:
            return x * 2
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for x in (1.0, 1.0, 6.0, 7.0, 1.5, 20.0, 30.0):
        assert step(x) == tg.grad(f, x)
    assert tg.gradient(f, 6.0)[0] == pytest.approx(1.5) and tg.gradient(f, 1.0) == (2.0,) and tg.gradient(f, 20.0) == (1.0,)


def test_a_ufunc_of_a_python_function() -> None:
    def f(a: Any) -> Any:
        return math.sin(a) * 0.5 if a > 0 else a * a
    found = tg.gradient(lambda x: np.vectorize(tg.forwarddiff(f))(x).sum() + np.frompyfunc(tg.forwarddiff(f), 1, 1)(x).sum(), X)[0]
    np.testing.assert_allclose(found, 2 * np.where(X > 0, 0.5 * np.cos(X), 2 * X))


def test_memory() -> None:
    """Of ten calls, each of twenty operations, the values and derivatives are kept, and nothing that was computed on the way."""
    x = np.linspace(0.0, 1.0, 20000)

    def most(wrap: Any) -> int:
        def layer(x: Any) -> Any:
            for _ in range(10):
                x = np.sin(x) * 1.1
            return x
        kernel = wrap(layer)

        def f(x: Any) -> Any:
            for _ in range(10):
                x = kernel(x)
            return x.sum()
        return peak(lambda: tg.gradient(f, x))[0]
    assert most(tg.forwarddiff) < 0.5 * most(plainly)


def test_batches() -> None:
    rows = np.stack([X, 2 * X, -X])
    for program in (layers, capturing, PROGRAMS[7][0]):
        f, g = program(tg.forwarddiff), program(plainly)
        np.testing.assert_allclose(tg.vmap(f)(rows), tg.vmap(g)(rows))
        np.testing.assert_allclose(tg.vmap(lambda x, f=f: tg.gradient(f, x)[0])(rows), [tg.gradient(g, x)[0] for x in rows])
        np.testing.assert_allclose(tg.gradient(lambda rows, f=f: tg.vmap(f)(rows).sum(), rows)[0], [tg.gradient(g, x)[0] for x in rows])


def test_random_numbers_are_drawn_once() -> None:
    def f(x: Any, rng: Any) -> Any:
        return tg.forwarddiff(lambda x: x * rng.normal(size=3) + rng.normal())(x).sum()

    def g(x: Any, rng: Any) -> Any:
        return (x * rng.normal(size=3) + rng.normal()).sum()
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for run in (lambda: tg.grad(f, X, one)[1][1], lambda: step(X, one)[1][1], lambda: step(X, one)[1][1], lambda: step(X, one)[1][1]):
        np.testing.assert_allclose(run(), tg.grad(g, X, two)[1][1], 1e-12)


def test_writes_reach_the_argument() -> None:
    for program in (writing, filling):
        f, g = program(tg.forwarddiff), program(plainly)
        assert f(X) == g(X)
        assert_close(tg.hessian(f)(X), tg.hessian(g)(X), 1e-11, 1e-12)


def test_torch() -> None:
    x = torch.tensor([0.3, 0.5, -1.0], dtype=torch.float64, requires_grad=True)
    w = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)

    def f(x: Any, wrap: Any) -> Any:
        return (wrap(lambda x: torch.tanh(w @ x) * x)(x) * wrap(torch.sin)(x)).sum()
    f(x, plainly).backward()
    found = tg.gradient(lambda x: f(x, tg.forwarddiff), x.detach())[0]
    torch.testing.assert_close(found, x.grad)
    for program in (layers, capturing):
        expected = torch.tensor(tg.gradient(program(plainly), X)[0])
        tape = tg.flatgrad(tg.trace(program(tg.forwarddiff), X)[1])
        torch.testing.assert_close(tape.play(torch.tensor(X))[1][1], expected)
        step = tg.value_and_grad(program(tg.forwarddiff), argnums=None, warmup=1, backend="torch")
        for _ in range(3):
            torch.testing.assert_close(step(torch.tensor(X))[1][1], expected)


def test_a_saved_tape(tmp_path: Path) -> None:
    for tape in (tg.trace(layers(tg.forwarddiff), X)[1], tg.flatgrad(tg.trace(layers(tg.forwarddiff), X)[1])):
        tape.save(tmp_path / "f.tape")
        again = tg.load(tmp_path / "f.tape")
        assert str(again) == str(tape)
        assert_same(again.play(2 * X), tape.play(2 * X))
    assert_same(tape.play(X), tg.grad(layers(plainly), X))


TABLE = np.ones(3)


def test_what_is_refused() -> None:
    with pytest.raises(tg.ArgumentError, match="forwarddiff of 3"):
        tg.forwarddiff(3)  # type: ignore[arg-type]
    with pytest.raises(tg.ArgumentError, match="a hook applies to cotangents"):
        tg.gradient(lambda x: tg.forwarddiff(lambda x: tg.hook(lambda d: d, x) * 2)(x).sum(), X)
    kept: list[Any] = []
    with pytest.raises(tg.MutationError, match="forwarddiff of <lambda>: it writes to kept"):
        tg.gradient(lambda x: tg.forwarddiff(lambda x: (kept.append(x), x)[1])(x).sum(), X)


def test_results_that_are_views() -> None:
    """What shares memory in the program is not written to past the tape; what is sliced is as any other."""
    def f(x: Any, wrap: Any) -> Any:
        return (wrap(lambda x: (x[1:], x[::-1] * 2))(x)[0] ** 2).sum()
    assert_same(tg.grad(lambda x: f(x, tg.forwarddiff), X), tg.grad(lambda x: f(x, plainly), X))

    def of_argument(x: Any) -> Any:
        x = x.copy()
        part = tg.forwarddiff(lambda x: x[1:])(x)
        part[0] = 9.0 * x[0]
        return (x * x).sum() + part.sum()

    def of_each_other(x: Any) -> Any:
        def twice(x: Any) -> Any:
            y = x * 2
            return y, y[::-1]
        a, b = tg.forwarddiff(twice)(x)
        a[0] = 5.0
        return (a * b).sum()

    def of_a_global(x: Any) -> Any:
        y = tg.forwarddiff(lambda x: (x * 2, TABLE))(x)[1]
        y += x
        return (y * x).sum()
    for program in (of_argument, of_each_other, of_a_global):
        for run in (tg.grad, tg.trace, tg.gradtape, lambda f, x: tg.hessian(f)(x), lambda f, x: tg.jvp(f, (x,), (x,))):
            with pytest.raises(tg.MutationError):
                run(program, X)
    np.testing.assert_array_equal(TABLE, np.ones(3))


def test_results_that_are_written_to() -> None:
    def program(wrap: Any) -> Any:
        def f(x: Any, y: Any) -> Any:
            r = wrap(lambda x, y: x * y)(x, y)
            r += 1
            r[0] *= x[1]
            return (r * y).sum()
        return f
    f, g = program(tg.forwarddiff), program(plainly)
    close(tg.optimise(tg.flatgrad(tg.trace(f, X, X + 1)[1])).play(X, X + 1), tg.grad(g, X, X + 1), 1e-12, 1e-13)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for _ in range(3):
        close(step(X, X + 1), tg.grad(g, X, X + 1), 1e-12, 1e-13)
    assert step.stats.hits == 2  # type: ignore[attr-defined]
