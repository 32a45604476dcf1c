"""Taylor mode: coefficients over the table of ops, against tangents of tangents; mpmath, programs, nesting, prints, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import tapegrad as tg

REAL: list[tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = [
    (lambda x: np.exp(np.sin(x)), lambda x: mpmath.exp(mpmath.sin(x)), 0.3),
    (lambda x: x ** 2.5 / np.sqrt(1 + x), lambda x: x ** mpmath.mpf("2.5") / mpmath.sqrt(1 + x), 0.7),
    (lambda x: np.tanh(x) * np.log(x) + x ** x, lambda x: mpmath.tanh(x) * mpmath.log(x) + x ** x, 1.7),
    (lambda x: np.arctan(x) / x ** 3 + 2 ** x, lambda x: mpmath.atan(x) / x ** 3 + 2 ** x, 0.9),
    (lambda x: np.arcsin(x / 3) * np.cosh(x), lambda x: mpmath.asin(x / 3) * mpmath.cosh(x), 0.5),
    (lambda x: np.log1p(x) * np.expm1(x) - np.cbrt(x), lambda x: mpmath.log1p(x) * mpmath.expm1(x) - mpmath.cbrt(x), 0.8),
    (lambda x: (x - 1) ** 4 + x ** -2 + np.hypot(x, 2), lambda x: (x - 1) ** 4 + x ** -2 + mpmath.sqrt(x * x + 4), 1.0),
    (lambda x: math.sin(x) * math.exp(-x * x), lambda x: mpmath.sin(x) * mpmath.exp(-x * x), 0.4),
]


@pytest.mark.quick
@pytest.mark.parametrize(("f", "g", "x"), REAL)
def test_twenty_coefficients_are_those_of_mpmath(f: Callable[[Any], Any], g: Callable[[Any], Any], x: float) -> None:
    with mpmath.workdps(60):
        expected = [float(c) for c in mpmath.taylor(g, mpmath.mpf(x), 20)]
    np.testing.assert_allclose(tg.taylor(f, x, 20), expected, 1e-10, 1e-12)


@pytest.mark.parametrize(("f", "g", "x"), REAL)
def test_six_coefficients_are_gradients_of_gradients(f: Callable[[Any], Any], g: Callable[[Any], Any], x: float) -> None:
    functions = [f]
    for _ in range(6):
        functions.append(lambda x, inner=functions[-1]: tg.gradient(inner, x)[0])
    expected = [fn(x) / math.factorial(k) for k, fn in enumerate(functions)]
    np.testing.assert_allclose(tg.taylor(f, x, 6), expected, 1e-9, 1e-12)


def test_the_number_of_operations_grows_with_the_square_of_the_order() -> None:
    counts = [len(tg.trace(lambda x, n=n: tg.taylor(lambda x: np.exp(np.sin(x)) / (1 + x * x), x, n), 0.3)[1]) for n in (10, 20, 40)]
    assert counts[1] < 4.2 * counts[0] and counts[2] < 4.2 * counts[1]


def test_a_direction_in_several_variables() -> None:
    def f(x: Any) -> Any:
        return np.array([x[0] * x[1] ** 2, np.exp(x @ x)])
    x, v = np.array([0.3, -0.2]), np.array([1.0, 2.0])
    made = tg.taylor(f, x, 4, direction=v)
    for t in (1e-2, -2e-2):
        np.testing.assert_allclose(sum(c * t ** k for k, c in enumerate(made)), f(x + t * v), 1e-7)
    nested = tg.taylor(lambda p: {"y": p["a"] * p["b"][0], "n": 3}, {"a": 2.0, "b": (3.0, 5.0)}, 3, {"a": 1.0, "b": (10.0, None)})
    assert [c["y"] for c in nested] == [6.0, 23.0, 10.0, 0.0]


def test_programs_with_loops_branches_and_writes() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(4)
        for i in range(4):
            y[i] = x ** i if x > 0 else -x
        y[1:] *= y[:-1]
        return y.sum()
    made = tg.taylor(f, 1.5, 6)
    exact = np.polynomial.Polynomial([1, 1, 0, 1, 0, 1])(np.polynomial.Polynomial([1.5, 1])).coef
    np.testing.assert_allclose(made[:6], exact, 1e-12)
    assert made[6] == 0
    assert tg.taylor(f, -1.0, 2)[2] == 3.0


def test_a_long_program_does_not_recurse() -> None:
    def f(x: Any) -> Any:
        for _ in range(3000):
            x = x + 0.001 * np.sin(x)
        return x
    assert len(tg.taylor(f, 0.5, 4)) == 5


def test_matrices() -> None:
    rng = np.random.default_rng(0)
    a, v, t = rng.normal(size=(3, 3)) + 4 * np.eye(3), rng.normal(size=(3, 3)), 1e-2
    for f in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.solve(a, a.T), lambda a: np.linalg.cholesky(a @ a.T),
              lambda a: np.linalg.norm(a, axis=0), lambda a: np.prod(a, axis=1)):
        made = tg.taylor(f, a, 6, v)
        np.testing.assert_allclose(sum(c * t ** k for k, c in enumerate(made)), f(a + t * v), 1e-9)


def test_numbers_of_all_kinds() -> None:
    assert tg.taylor(lambda x: 1 / (1 + x), Fraction(1, 2), 3) == [Fraction(2, 3), Fraction(-4, 9), Fraction(8, 27), Fraction(-16, 81)]
    with mpmath.workdps(40):
        made = tg.taylor(lambda x: mpmath.exp(mpmath.sin(x)), mpmath.mpf(1) / 3, 10)
        for a, b in zip(made, mpmath.taylor(lambda x: mpmath.exp(mpmath.sin(x)), mpmath.mpf(1) / 3, 10), strict=True):
            assert abs(a - b) < mpmath.mpf(10) ** -35
    for c, e in zip(tg.taylor(lambda z: np.exp(1j * z), 0.5 + 0.2j, 4), mpmath.taylor(lambda z: mpmath.exp(1j * z), mpmath.mpc(0.5, 0.2), 4)):
        np.testing.assert_allclose(c, complex(e))
    narrow = tg.taylor(np.exp, np.ones(2, np.float32), 3)
    assert {c.dtype for c in narrow} == {np.dtype(np.float32)}
    x = torch.tensor([0.3, 0.7], dtype=torch.float64)
    for c, e in zip(tg.taylor(lambda x: torch.exp(torch.sin(x)), x, 5), tg.taylor(lambda x: np.exp(np.sin(x)), x.numpy(), 5), strict=True):
        np.testing.assert_allclose(c.numpy(), e, 1e-13)


def test_coefficients_are_differentiated_batched_and_compiled() -> None:
    def third(x: Any) -> Any:
        return 6 * tg.taylor(lambda x: np.exp(np.sin(x)), x, 3)[3]
    assert tg.gradient(third, 0.3)[0] == pytest.approx(24 * tg.taylor(lambda x: np.exp(np.sin(x)), 0.3, 4)[4])
    assert tg.jvp(third, (0.3,), (1.0,))[1] == pytest.approx(24 * tg.taylor(lambda x: np.exp(np.sin(x)), 0.3, 4)[4])
    xs = np.linspace(0.1, 0.5, 4)
    np.testing.assert_allclose(tg.vmap(third)(xs), [third(x) for x in xs], 1e-12)
    fast = tg.compile(third, warmup=1)
    for x in xs:
        assert fast(x) == pytest.approx(third(x))
    assert fast.stats.hits >= 3
    assert tg.taylor(lambda x: tg.gradient(lambda x: x ** 5, x)[0], 2.0, 2) == pytest.approx([80.0, 160.0, 120.0])
    assert tg.taylor(lambda x: tg.taylor(lambda x: x ** 5, x, 2)[2], 2.0, 1) == pytest.approx([80.0, 120.0])


def test_a_rule_of_the_users_is_expanded() -> None:
    @tg.primitive
    def cubed(x: Any) -> Any:
        return x ** 3

    @tg.rrule(cubed)
    def _(x: Any) -> Any:
        return x ** 3, lambda dy: (3 * dy * x ** 2,)
    np.testing.assert_allclose(np.array(tg.taylor(lambda x: cubed(x) * x, np.array([2.0]), 5)).ravel(), [16, 32, 24, 8, 1, 0])


def test_what_does_not_depend_is_zero() -> None:
    assert tg.taylor(lambda x: 3.0, 1.0, 2) == [3.0, 0.0, 0.0]
    assert [c.tolist() for c in tg.taylor(lambda x: np.floor(x), np.array([1.5]), 2)] == [[1.0], [0.0], [0.0]]
    assert tg.taylor(lambda x: x, 1.5, 0) == [1.5]


def test_where_a_derivative_is_filled_in() -> None:
    special = pytest.importorskip("scipy.special")
    for f, exact in ((np.sinc, lambda x: mpmath.sinc(mpmath.pi * x)), (special.j1, lambda x: mpmath.besselj(1, x)),
                     (lambda x: special.xlogy(x, x + 1), lambda x: x * mpmath.log(x + 1))):
        found = tg.taylor(f, np.array([0.5, 0.0]), 6)
        for i, x in enumerate((0.5, 0.0)):
            np.testing.assert_allclose([c[i] for c in found], [float(c) for c in mpmath.taylor(exact, x, 6)], 1e-9, 1e-9)


def test_what_is_refused() -> None:
    for order in (-1, 1.5, True, None):
        with pytest.raises(tg.ArgumentError, match="order is"):
            tg.taylor(np.sin, 1.0, order)  # type: ignore[arg-type]
    with pytest.raises(tg.ArgumentError, match="has shape"):
        tg.taylor(np.sin, np.ones(2), 2, np.ones(3))
    with pytest.raises(tg.MissingRule, match="g"):
        @tg.primitive
        def g(x: Any) -> Any:
            return x
        tg.taylor(g, 1.0, 2)


def test_what_has_no_series_of_its_own_says_so() -> None:
    linalg = pytest.importorskip("scipy.linalg")
    assert len(tg.taylor(linalg.expm, np.ones((2, 2)) / 3, 3)) == 4
    with pytest.raises(tg.MissingRule, match="expm has no power series rule") as refused:
        tg.taylor(lambda x: linalg.expm(x), np.ones((2, 2)) / 3, 9)
    assert "test_taylor.py" in str(refused.value)
    assert len(tg.taylor(lambda x: np.prod(x * x.mean()), np.ones(100_000), 2)) == 3


def test_the_tape_of_coefficients_says_which_they_are() -> None:
    tape = tg.taylortape(lambda x, y: np.sin(x) * y, 2.0, 3.0, order=2).check()
    assert {op.note for op in tape.ops if op.note.startswith("coefficient")} == {
        "coefficient 1 of %4", "coefficient 2 of %4", "coefficient 1 of %5", "coefficient 2 of %5"}
    value, first, second = tape.play(0.5, 1.0)
    np.testing.assert_allclose([value, first, second], [math.sin(0.5), math.cos(0.5) + math.sin(0.5), math.cos(0.5) - math.sin(0.5) / 2])


@pytest.mark.parametrize("f", [lambda t, a: np.exp(t) * a, lambda t, a: a**t + t / a, lambda t, a: np.sin(t * a) - a])
def test_what_is_captured_may_be_traced(f: Any) -> None:
    def third(x: Any, a: Any) -> Any:
        return tg.taylor(lambda t: f(t, a), x, order=3)[3]
    step = tg.value_and_grad(third, argnums=(0, 1), warmup=1)
    for x, a in ((0.7, 1.3), (0.8, 1.2), (0.6, 1.4)):
        value, found = tg.grad(third, x, a, argnums=(0, 1))
        expected = [(third(x + h, a + k) - third(x - h, a - k)) / 2e-6 for h, k in ((1e-6, 0.0), (0.0, 1e-6))]
        assert value == pytest.approx(third(x, a)) == step(x, a)[0]
        assert found == pytest.approx(expected, rel=1e-5) and step(x, a)[1] == pytest.approx(found)
