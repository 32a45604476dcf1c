"""tg.implicit: solutions are differentiated by the equations that they solve, whoever solves these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.testing import check_grads
from tests.threads import at_once

A, B = np.array([[3.0, 1.0], [0.5, 2.0]]), np.array([1.0, 2.0])


def heron(a: Any) -> Any:
    x = 1.0
    while abs(x * x - a) > 1e-13:
        x = (x + a / x) / 2
    return x


def root(a: Any) -> Any:
    return tg.implicit(lambda x, a: x * x - a)(heron, a)


def cubic(a: Any, b: Any) -> Any:
    def solve(a: Any, b: Any) -> Any:
        x = np.zeros(2)
        for _ in range(50):
            x = x - np.linalg.solve(a + np.diag(0.3 * x**2), a @ x + 0.1 * x**3 - b)
        return x

    return tg.implicit(lambda x, a, b: a @ x + 0.1 * x**3 - b)(solve, a, b)


@pytest.mark.quick
def test_a_root_to_the_third_order() -> None:
    def first(a: Any) -> Any:
        return tg.gradient(root, a)[0]

    def second(a: Any) -> Any:
        return tg.gradient(first, a)[0]

    assert tg.grad(root, 4.0) == (pytest.approx(2.0), (None, pytest.approx(0.25)))
    assert second(4.0) == pytest.approx(-1 / 32)
    assert tg.gradient(second, 4.0)[0] == pytest.approx(3 / 256)


def test_the_solver_runs_again_for_other_parameters() -> None:
    value, tape = tg.trace(root, 4.0)
    assert [op.fn.__name__ for op in tape if op.kind == "call"] == ["implicit"]
    assert tape.check().play(9.0) == pytest.approx(3.0)
    for made in (tg.gradtape(root, 4.0), tg.flatgrad(tape), tg.primitivize(tg.gradtape(root, 4.0))):
        value, (_, da) = made.play(9.0)
        assert (value, da) == (pytest.approx(3.0), pytest.approx(1 / 6))
    step, again = tg.value_and_grad(root, argnums=None, warmup=1), tg.compile(root)
    for a in (4.0, 9.0, 16.0, 2.0):
        assert step(a) == (pytest.approx(a**0.5), (None, pytest.approx(0.5 * a**-0.5)))
        assert again(a) == pytest.approx(a**0.5)
    assert step.stats.hits >= 2


def test_systems_in_every_mode() -> None:
    check_grads(cubic, A, B, order=2)
    expected = tg.jacobian(cubic, 1)(A, B)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(tg.jacobian(cubic, 1, mode=mode)(A, B), expected, 1e-12)
    np.testing.assert_allclose(tg.jvp(lambda b: cubic(A, b), (B,), (B,))[1], expected @ B, 1e-12)
    np.testing.assert_allclose(tg.linearize(lambda b: cubic(A, b), B)[1](B), expected @ B, 1e-12)

    def f(b: Any) -> Any:
        return cubic(A, b).sum()

    np.testing.assert_allclose(tg.hvp(f)(B, B), tg.hessian(f)(B) @ B, 1e-12)
    np.testing.assert_allclose(
        tg.vmap(lambda b: tg.gradient(f, b)[0])(np.stack([B, 2 * B])),
        [tg.gradient(f, B)[0], tg.gradient(f, 2 * B)[0]],
        1e-10,
    )


def test_parameters_are_nested_and_captured() -> None:
    scale = 2.0
    params = {"a": [4.0, np.ones(2)], "b": 1.0}

    def solve(p: Any) -> Any:
        return np.sqrt(p["a"][0] * p["a"][1] * scale * p["b"])

    def f(p: Any, scale: Any) -> Any:
        return tg.implicit(lambda x, p: x * x - p["a"][0] * p["a"][1] * scale * p["b"])(solve, p).sum()

    value, (_, dp, dscale) = tg.grad(f, params, scale)
    assert value == pytest.approx(2 * 8**0.5)
    assert (dp["a"][0], dp["b"], dscale) == tuple(pytest.approx(value / 2 / x) for x in (4.0, 1.0, 2.0))
    np.testing.assert_allclose(dp["a"][1], np.full(2, value / 4))


def test_a_solution_may_be_given() -> None:
    def f(a: Any) -> Any:
        return tg.implicit(lambda x, a: x * x - a)(heron(a), a)  # the loop is traced, and not swept

    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for a in (4.0, 5.0, 400.0, 4.0):
        assert step(a) == (pytest.approx(a**0.5), (None, pytest.approx(0.5 * a**-0.5)))
    assert tg.gradient(lambda a: tg.implicit(lambda x, a: x * x - a)(2, a), 4.0) == (pytest.approx(0.25),)
    assert tg.implicit(lambda x, a: x * x - a)(heron, 4.0) == pytest.approx(2.0)  # in no trace


def test_branches_of_the_residual_are_those_at_the_solution() -> None:
    def f(a: Any) -> Any:
        return tg.implicit(lambda x, a: x - a if x > 1 else x**3 - a)(lambda a: a if a > 1 else a ** (1 / 3), a)

    step, tape = tg.value_and_grad(f, argnums=None, warmup=1), tg.flatgrad(tg.trace(f, 0.5)[1])
    for a in (0.5, 0.6, 0.7, 2.0, 3.0, 0.5):
        assert step(a)[1][1] == pytest.approx(1.0 if a > 1 else a ** (-2 / 3) / 3)
    with pytest.raises(tg.GuardError):
        tape.play(2.0)


def test_globals_that_change_are_seen() -> None:
    space: dict[str, Any] = {"K": 1.0}
    exec("def residual(x, a): return x ** 3 - a * K\ndef solve(a): return (a * K) ** (1 / 3)", space)
    step = tg.value_and_grad(lambda a: tg.implicit(space["residual"])(space["solve"], a), argnums=None, warmup=1)
    for k in (1.0, 1.0, 1.0, 2.0, 2.0, 3.0):
        space["K"] = k
        assert step(8.0)[1][1] == pytest.approx(k ** (1 / 3) / 12)


@pytest.mark.parametrize(
    ("f", "a", "expected"),
    [
        (
            lambda a: tg.implicit(lambda x, a: x @ x - a)(lambda a: np.array([[2.0, 0.5], [0.5, 1.0]]), a),
            np.array([[4.25, 1.5], [1.5, 1.25]]),
            None,
        ),
        (
            lambda a: tg.implicit(lambda x, a: x**2 - a)(np.sqrt, a).imag,
            -4.0 + 0.5j,
            np.conj(-0.5j / np.sqrt(-4.0 + 0.5j)),
        ),
        (
            lambda a: tg.implicit(lambda x, a: x**2 - a)(np.sqrt, a).sum(),
            np.array([4.0, 9.0], np.float32),
            np.array([0.25, 1 / 6], np.float32),
        ),
        (lambda a: tg.implicit(lambda x, a: x - a)(lambda a: a.copy(), a).sum(), np.zeros(0), np.zeros(0)),
        (lambda a: tg.implicit(lambda x, a: [x[0] ** 3 - a, x[1] - a])(lambda a: [2, a], a).sum(), 8.0, 13 / 12),
    ],
)
def test_kinds_of_numbers(f: Callable[[Any], Any], a: Any, expected: Any) -> None:
    if expected is None:
        check_grads(lambda a: tg.implicit(lambda x, a: x @ x - a)(_sqrtm, a), a, order=1)
        return
    da = tg.gradient(f, a)[0]
    np.testing.assert_allclose(da, expected, 1e-6)
    assert np.asarray(da).dtype == np.asarray(a).dtype


def _sqrtm(a: Any) -> Any:
    x = np.eye(2)
    for _ in range(50):
        x = (x + np.linalg.inv(x) @ a) / 2
    return x


def test_tensors() -> None:
    def cbrt(a: Any) -> Any:
        return a.sign() * a.abs() ** (1 / 3)

    def f(a: Any) -> Any:
        return tg.implicit(lambda x, a: x**3 - a)(cbrt, a).sum()

    for n in (1, 2, 5):
        a = torch.arange(1.0, n + 1, dtype=torch.float64)
        torch.testing.assert_close(tg.gradient(f, a)[0], a ** (-2 / 3) / 3)
        torch.testing.assert_close(tg.gradient(lambda a: tg.gradient(f, a)[0].sum(), a)[0], -2 / 9 * a ** (-5 / 3))


def test_many_unknowns_are_solved_for_by_iteration() -> None:
    pytest.importorskip("scipy")
    n = 700
    weights, along = np.linspace(-1, 1, n), np.cos(np.arange(n))

    def solve(a: Any) -> Any:
        x = np.zeros(n)
        for _ in range(100):
            x = a - 0.2 * np.roll(np.tanh(x), 1)
        return x

    def f(a: Any) -> Any:
        return weights @ tg.implicit(lambda x, a: x + 0.2 * np.roll(np.tanh(x), 1) - a)(solve, a)

    a = np.sin(np.arange(n))
    da = tg.gradient(f, a)[0]
    assert da @ along == pytest.approx((f(a + 1e-5 * along) - f(a - 1e-5 * along)) / 2e-5, 1e-6)
    second = tg.gradient(lambda a: tg.gradient(f, a)[0] @ along, a)[0]
    assert second @ along == pytest.approx(
        (tg.gradient(f, a + 1e-4 * along)[0] - tg.gradient(f, a - 1e-4 * along)[0]) @ along / 2e-4, 1e-4
    )


# -- what is refused


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda a: tg.implicit(lambda x, a: x * x - a)(1.0, a), "a Newton step changes it by 1.5"),
        (lambda a: tg.implicit(lambda x, a: x**3 - 0 * a)(lambda a: 0.0, a), "singular"),
        (
            lambda a: tg.implicit(lambda x, a: np.array([x[0] + x[1], x[0] + x[1]]) - a)(
                lambda a: np.array([a / 2, a / 2]), a
            ).sum(),
            "singular",
        ),
        (lambda a: tg.implicit(lambda x, a: np.array([x, x]) - a)(lambda a: a, a), "1 unknowns, and 2 equations"),
    ],
)
def test_refused_with_the_users_line(f: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(tg.UnknownFunction, match=said) as caught:
        tg.grad(f, 4.0)
    assert caught.value.try_ and caught.value.where is not None and caught.value.where.file == __file__


def test_a_residual_is_a_function() -> None:
    with pytest.raises(tg.ArgumentError, match="not a function"):
        tg.implicit(3.0)  # type: ignore[arg-type]


def test_what_a_solver_changes_is_refused() -> None:
    def counted(a: Any) -> Any:
        n = 0

        def residual(x: Any, b: Any) -> Any:
            return x - a * b

        def solve(b: Any) -> Any:
            nonlocal n
            n += 1
            return a * b

        return tg.implicit(residual)(solve, a) + n

    def kept(a: Any) -> Any:
        seen: list[Any] = []

        def solve(b: Any) -> Any:
            seen.append(b)
            return a * b

        return tg.implicit(lambda x, b: x - a * b)(solve, a)

    def written(a: Any) -> Any:
        buffer = np.zeros(1)

        def solve(b: Any) -> Any:
            buffer[0] = a * b
            return buffer[0]

        return tg.implicit(lambda x, b: x - a * b)(solve, a)

    for f in (counted, kept, written):
        with pytest.raises(tg.MutationError, match="a function that implicit calls changes"):
            tg.grad(f, 2.0)


class Model:
    def __init__(self, k: Any) -> None:
        self.k = k

    def residual(self, x: Any) -> Any:
        return x * x - self.k

    def solve(self) -> Any:
        return self.k**0.5


MODEL, TABLE = Model(4.0), {"k": 4.0}


def test_objects_that_are_arguments() -> None:
    assert tg.gradient(lambda m: tg.implicit(m.residual)(m.solve), MODEL)[0].k == pytest.approx(0.25)
    value, _ = tg.grad(lambda: tg.implicit(MODEL.residual)(MODEL.solve))
    assert value == 2.0


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda m: tg.implicit(lambda x: x * x - MODEL.k * m.k)(lambda: MODEL.k), MODEL),
        (lambda t: tg.implicit(lambda x: x - read(t["k"]))(lambda: 16.0), TABLE),
        (lambda t: tg.implicit(lambda x: x - t["k"])(lambda: read(1.0)), TABLE),
    ],
)
def test_what_is_an_argument_too_is_not_read_by_another_name(f: Callable[[Any], Any], x: Any) -> None:
    with pytest.raises(tg.TapeError):
        tg.grad(f, x)


def read(x: Any) -> Any:
    return x * TABLE["k"]


def test_threads() -> None:
    found: dict[float, Any] = {}
    at_once(lambda k: found.update({k: tg.gradient(root, k)[0]}), [1.0, 2.0, 3.0, 4.0])
    assert found == {k: pytest.approx(0.5 * k**-0.5) for k in (1.0, 2.0, 3.0, 4.0)}


def test_it_is_printed_and_not_saved(tmp_path: Any) -> None:
    tape = tg.trace(root, 4.0)[1]
    assert "= implicit(%2" in str(tape)
    with pytest.raises(tg.TapeFormatError, match="implicit"):
        tape.save(tmp_path / "root.tape")


def test_second_derivatives_that_are_called_often() -> None:
    def cbrt(a: Any) -> Any:
        return tg.implicit(lambda x, a: x**3 - a)(np.cbrt, a)

    rows, curvature = tg.jacobian(cbrt), tg.hessian(lambda a: cbrt(a).sum())
    for k in range(1, 8):
        a = np.arange(1.0, 4.0) * k
        np.testing.assert_allclose(rows(a), np.diag(a ** (-2 / 3) / 3), 1e-9)
        np.testing.assert_allclose(curvature(a), np.diag(-2 / 9 * a ** (-5 / 3)), 1e-9)


def test_many_unknowns_one_by_one() -> None:
    pytest.importorskip("scipy")
    a = np.linspace(1, 100, 2000)

    def solve(a: Any) -> Any:
        x = np.ones(len(a))
        for _ in range(60):
            x = x - (x**3 + x - a) / (3 * x**2 + 1)
        return x

    def f(a: Any) -> Any:
        return tg.implicit(lambda x, a: x**3 + x - a)(solve, a).sum()

    x = solve(a)
    np.testing.assert_allclose(tg.gradient(f, a)[0], 1 / (3 * x**2 + 1), 1e-10)
    np.testing.assert_allclose(tg.hvp(f)(a, np.ones(2000)), -6 * x / (3 * x**2 + 1) ** 3, 1e-9)
    with pytest.raises(tg.UnknownFunction, match="does not solve the equations"):
        tg.gradient(lambda a: tg.implicit(lambda x, a: x**3 + x - a)(lambda a: a, a).sum(), a)
