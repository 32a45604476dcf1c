"""Arrays of objects that are numbers: NumPy computes with them by their operators, and so is their gradient found."""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import gmpy2
import mpmath
import numpy as np
import pytest
import sympy
import uncertainties

import tapegrad as tg

THIRD = Fraction(1, 3)
A, B = sympy.symbols("a b")
# rational functions that agree there are one: to simplify their difference takes a thousand times as long
POINTS = [{A: sympy.Rational(p, q), B: sympy.Rational(q, 7 * p)} for p, q in ((3, 11), (-8, 5), (13, 4))]
TABLE = np.array([[1, 2, 3], [0, 1, 0], [5, 6, 7]], object)
FRACTIONS = np.array([THIRD, Fraction(2, 5), Fraction(3)])
NUMBERS = {"Fraction": FRACTIONS, "Decimal": np.array([Decimal("0.25"), Decimal(2), Decimal(3)]), "mpf": np.array([mpmath.mpf(1) / 3, mpmath.mpf(2), mpmath.mpf(3)]),
           "mpq": np.array([gmpy2.mpq(1, 3), gmpy2.mpq(2), gmpy2.mpq(3)]), "symbols": np.array([A, B, A * B + 1]),
           "ufloat": np.array([uncertainties.ufloat(k, 0.1) for k in (1, 2, 3)])}


def filled(x: Any) -> Any:
    y, z = np.zeros_like(x), np.zeros(3, x.dtype)
    y[0] = x[1]
    y[1:] = x[:2] * x[2]
    z[[0, 2]] = y[:2]
    return np.sum(y * z)


def looped(x: Any) -> Any:
    for _ in range(3):
        x = x * x / (1 + x * x)
    return x.sum()


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x * x), lambda x: np.mean(x * x * x), lambda x: x @ x, lambda x: np.sum((TABLE @ x) ** 2), lambda x: np.dot(np.dot(TABLE, x), x), looped,
    lambda x: x[0] * x[1] + x[2] ** 3 / x[0], lambda x: np.sum(x[1:] * x[:-1]), lambda x: sum(v * v for v in x), filled,
    lambda x: np.sum(np.add(np.multiply(x, 3), np.negative(x)) / np.square(x)), lambda x: np.sum(np.array([x[0] * x[1], x[1] * 2]) ** 2), lambda x: np.sum(np.outer(x, x).sum(axis=0, keepdims=True) * x),
    lambda x: np.sum(np.concatenate([x, x * x])[1::2]), lambda x: np.prod(x), lambda x: np.sum(np.cumsum(x) * x), lambda x: np.sum(np.where(np.array([True, False, True]), x, 0) * x),
    lambda x: np.einsum("i,i->", x, x * 2), lambda x: np.sum(x[[0, 0, 2]] * x[[1, 1, 1]]), lambda x: np.sum(x.reshape(3, 1).T @ x.reshape(3, 1)), lambda x: np.sum(np.diff(x) ** 2),
    lambda x: np.sum(np.stack([x, 2 * x], axis=1)[:, 1] * x), lambda x: np.sum(np.power(x, 3) - np.subtract(x, 1) * np.divide(1, x)),
]


@functools.cache
def slopes(f: Any) -> list[Any]:
    """Return the gradient as sympy finds it, of symbols."""
    x = sympy.symbols("x0 x1 x2")
    value = f(np.array(x))
    return [sympy.lambdify(x, sympy.diff(value, each), modules=[{}]) for each in x]


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_gradient_is_an_array_of_numbers_of_the_same_kind(f: Any, kind: str) -> None:
    x = NUMBERS[kind]
    wanted = [each(*x) for each in slopes(f)]
    value, (_, dx) = tg.grad(f, x)
    fast = tg.value_and_grad(f)
    tape = tg.gradtape(f, x)
    plays = [tape.play(x), *([tg.primitivize(tape).play(x)] if kind != "ufloat" else [])]  # which does not leave operators to traced numbers
    rows = np.array([tg.jvp(f, (x,), (np.array(row, object),))[1] for row in np.eye(3, dtype=int)])
    for y, found in ((value, dx), fast(x), fast(x), fast(x), *[(y, g[1]) for y, g in plays], (value, rows)):
        assert found.dtype == object and found.shape == x.shape
        for a, b in zip((y, *found), (f(x), *wanted)):
            if kind == "symbols":
                assert all(sympy.sympify(a - b).xreplace(at) == 0 for at in POINTS)
            elif kind in ("Fraction", "mpq"):
                assert a == b
            else:
                assert float(getattr(a, "n", a)) == pytest.approx(float(getattr(b, "n", b)), rel=1e-13)
                assert kind != "ufloat" or getattr(a, "s", 0) == pytest.approx(getattr(b, "s", 0), rel=1e-12)
        assert kind == "symbols" or {type(each) for each in found} <= {type(x[0]), type(x[0] + 0)}


def test_higher_orders_and_batches() -> None:
    x = FRACTIONS
    for f, wanted in ((lambda x: np.max(x * x), [0, 0, 6]), (lambda x: np.min(x * x), [Fraction(2, 3), 0, 0]), (lambda x: np.sum(np.maximum(x, 1)), [0, 0, 1])):
        np.testing.assert_array_equal(tg.gradient(f, x)[0], wanted)
        assert [tg.jvp(f, (x,), (row,))[1] for row in np.eye(3, dtype=int)] == wanted
    np.testing.assert_array_equal(tg.hessian(lambda x: np.sum(x ** 3) + x[0] * x[1])(x), [[2, 1, 0], [1, Fraction(12, 5), 0], [0, 0, 18]])
    np.testing.assert_array_equal(tg.jacobian(lambda x: x * x)(x), np.diag(2 * x))
    np.testing.assert_array_equal(tg.hvp(lambda x: np.sum(x ** 3))(x, np.array([1, 0, 0])), [2, 0, 0])
    np.testing.assert_array_equal(tg.vmap(lambda x: x ** 3)(x), x ** 3)
    values, dxs = tg.vmap(tg.value_and_grad(lambda x: x @ x))(np.array([x, x + 1]))
    np.testing.assert_array_equal(values, [x @ x, (x + 1) @ (x + 1)])
    np.testing.assert_array_equal(dxs, [2 * x, 2 * x + 2])
    np.testing.assert_array_equal(tg.gradient(tg.checkpoint(lambda x: np.sum(x ** 3)), x)[0], 3 * x ** 2)


def test_numbers_and_arrays_of_numpys_beside_them() -> None:
    for f, args, wanted in [
        (lambda x: np.array([x, x]).sum(), (THIRD,), (2,)), (lambda x: np.sum([x, x]), (mpmath.mpf(2),), (2,)), (lambda x: (np.ones(2) * x).sum(), (THIRD,), (2,)),
        (lambda a, x: (a * x).sum(), (np.ones(2), THIRD), ([1 / 3, 1 / 3], 2)), (lambda a, x: (x + a).sum(), (np.ones(2), mpmath.mpf(2)), ([1.0, 1.0], 2)),
        (lambda a: (a * THIRD).sum(), (np.ones(2),), ([1 / 3, 1 / 3],)), (lambda a, x: (a * (x * mpmath.mpf(2))).sum(), (np.ones(2), 0.5), ([1.0, 1.0], 4.0)),
        (lambda x, s: np.sum(x * s), (FRACTIONS, THIRD), ([THIRD] * 3, Fraction(56, 15))), (lambda s: np.sum(FRACTIONS * s), (0.5,), (56 / 15,)),
        (lambda x: np.sum(x * x), (np.array([1.0, 2], object),), ([2.0, 4.0],)), (lambda x: np.sum(x * x), (np.array([3, 2], object),), ([6, 4],)),
    ]:
        found = tg.gradient(f, *args)
        for dx, x, known in zip(found, args, wanted):
            assert type(dx) is type(x) and getattr(dx, "dtype", None) == getattr(x, "dtype", None)
            np.testing.assert_array_equal(dx, known)


def test_what_has_no_meaning_for_objects_is_named(tmp_path: Path) -> None:
    for f, name in ((lambda x: np.sum(np.sin(x)), "sin"), (lambda x: np.std(x), "sqrt"), (lambda x: np.sum(np.linalg.inv(np.outer(x, x))), "inv")):
        with pytest.raises((TypeError, tg.UnknownFunction), match=name):
            tg.grad(f, FRACTIONS)
    with pytest.raises(tg.ConcretizationError, match="objects"):  # complex numbers are refused: their conjugate would be forgotten
        tg.grad(lambda x: np.sum(x * 1j).imag, FRACTIONS)
    for other in (np.array([1j, 2.0], object), np.array([1.0, None], object), np.array([True, 2.0], object)):
        with pytest.raises(tg.ArgumentError, match="array of objects"):
            tg.grad(lambda x: np.sum(x * x), other)
    tape = tg.gradtape(lambda x: np.sum(x * x) / 3, FRACTIONS)
    with pytest.raises(tg.GuardError, match=r"of Fraction when .* of Decimal"):
        tape.play(NUMBERS["Decimal"])
    with pytest.raises(tg.GuardError, match="would round"):
        tg.gradtape(lambda x: np.sum(x * x), np.ones(3)).play(FRACTIONS)
    with pytest.raises(tg.ArgumentError, match="source"):
        tape.to_python()
    with pytest.raises(tg.TapeFormatError):
        tape.save(tmp_path / "x.tape")
    with pytest.raises(tg.ArgumentError, match="cannot be compiled"):
        tg.compile(tape)
