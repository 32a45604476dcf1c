"""Numbers of SymPy, uncertainties and gmpy2, and tapes of floats that are replayed on numbers of another system."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import gmpy2
import mpmath
import numpy as np
import pytest
import sympy
import uncertainties
from uncertainties import umath

import tapegrad as tg

X, Y = sympy.symbols("x y")


def square(x: Any) -> Any:
    return x ** 2 + 3 * x + 1


def wave(x: Any) -> Any:
    return np.sin(x) * np.exp(-x) + math.sqrt(x) + 0.1 * np.log(x)


def rational(source: random.Random, depth: int = 3) -> tuple[str, bool]:
    """Return the text of a rational function of x and y, and whether it has no variable: Python computes that in floats."""
    if not depth:
        found = source.choice(["x", "y", "x", "y", str(source.randint(1, 5)), repr(source.randint(1, 40) / 10)])
        return found, found not in "xy"
    (a, of_a), (b, of_b) = rational(source, depth - 1), rational(source, depth - 1)
    if of_a and of_b:
        return rational(source, depth)
    op = source.choice("+-*/^")
    return (f"({a}) ** {source.randint(2, 3)}", False) if op == "^" and not of_a else (f"({a} {op.replace('^', '+')} {b})", False)


def programs(count: int) -> Iterator[tuple[str, Any]]:
    source = random.Random(0)
    while count:
        text = rational(source)[0]
        try:
            f = eval(f"lambda x, y: {text}")
            tape = tg.gradtape(f, 0.7, 1.3)
        except (ArithmeticError, tg.TapeError):
            continue
        count -= 1
        yield text, tape


def test_a_tape_of_floats_is_exact_in_fractions_and_symbolic_in_sympys_numbers() -> None:
    at = {X: sympy.Rational(2, 7), Y: sympy.Rational(5, 3)}
    for i, (text, tape) in enumerate(programs(200)):
        wanted = sympy.sympify(text, rational=True)
        slopes = [sympy.diff(wanted, x) for x in (X, Y)]
        known = [each.subs(at) for each in (wanted, *slopes)]
        if not all(x.is_finite for x in known):
            continue
        value, (_, *found) = tape.play(Fraction(2, 7), Fraction(5, 3))
        assert [Fraction(x) for x in (value, *found)] == [Fraction(int(x.p), int(x.q)) for x in known], text
        if i < 100:
            _, (_, *found) = tape.play(X, Y)
            assert all(sympy.simplify(dx - wanted) == 0 for dx, wanted in zip(found, slopes)), text


def test_a_tape_of_floats_has_fifty_digits_in_mpmaths() -> None:
    source, names = random.Random(1), {"sin": "sin", "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "arctan": "atan"}
    with mpmath.workdps(50):
        for _ in range(40):
            parts = [(source.choice(list(names)), source.choice(["x", "x * x", "x + 0.5", "1 / x", "0.1 * x"])) for _ in range(3)]
            tape = tg.gradtape(eval("lambda x: " + " * ".join(f"np.{name}({arg})" for name, arg in parts), {"np": np}), 0.7)
            exact = re.sub(r"(\d+\.\d+)", r"mpmath.mpf('\1')", " * ".join(f"mpmath.{names[name]}({arg})" for name, arg in parts))
            wanted = mpmath.diff(eval("lambda x: " + exact), mpmath.mpf("0.9"))
            assert abs(tape.play(mpmath.mpf("0.9"))[1][1] - wanted) < mpmath.mpf(10) ** -40 * max(1, abs(wanted))


@pytest.mark.parametrize(("x", "slope"), [
    (Fraction(1, 3), Fraction(11, 3)), (Decimal("0.5"), Decimal(4)), (gmpy2.mpq(1, 3), gmpy2.mpq(11, 3)), (gmpy2.mpfr("0.5"), gmpy2.mpfr(4)),
    (X, 2 * X + 3), (X * Y, 2 * X * Y + 3)], ids=repr)
def test_a_gradient_in_the_numbers_own_arithmetic(x: Any, slope: Any) -> None:
    for value, (_, dx) in (tg.grad(square, x), tg.gradtape(square, 1.0).play(x), tg.primitivize(tg.gradtape(square, 1.0)).play(x)):
        assert sympy.simplify(value - square(x)) == 0 if isinstance(x, sympy.Expr) else value == square(x)
        assert dx == slope and (isinstance(x, sympy.Expr) or type(dx) is type(x))
    value, dx = tg.compile(tg.value_and_grad(square))(x)
    assert dx == slope


def test_a_gradient_with_its_error_and_its_correlations() -> None:
    x = uncertainties.ufloat(0.333, 0.01)
    value, (_, dx) = tg.grad(square, x)
    assert f"{value:.4f}" == "2.1099+/-0.0367" and f"{dx:.3f}" == "3.666+/-0.020"
    assert (dx - 2 * x).std_dev == pytest.approx(0, abs=1e-12)  # of one number, both of them
    _, (_, again) = tg.gradtape(wave, 1.0).play(x)
    _, (_, wanted) = tg.grad(wave, 0.333)
    assert again.nominal_value == pytest.approx(wanted)
    second = tg.gradient(lambda x: tg.gradient(wave, x)[0], 0.333)[0]
    assert again.std_dev == pytest.approx(abs(second) * 0.01, rel=1e-6)
    assert umath.sin(x).nominal_value == math.sin(0.333)


def test_symbols_in_the_functions_of_numpy_and_at_higher_orders() -> None:
    _, (_, dx) = tg.gradtape(wave, 1.0).play(X)
    wanted = sympy.sin(X) * sympy.exp(-X) + sympy.sqrt(X) + sympy.Rational(1, 10) * sympy.log(X)
    assert sympy.simplify(dx - sympy.diff(wanted, X)) == 0
    cube = tg.gradient(lambda x: tg.gradient(lambda z: 2 / z + 3 * z ** 4 - z * sympy.pi, x)[0] * x, X)[0]
    assert sympy.simplify(cube - (48 * X ** 3 - sympy.pi + 2 / X ** 2)) == 0
    assert tg.jvp(lambda x: x * x + 1 / x, (X,), (Y,))[1] == 2 * X * Y - Y / X ** 2
    with pytest.raises(TypeError, match="truth value"):
        tg.grad(lambda x: x if x > 0 else -x, X)


@pytest.mark.parametrize(("f", "x"), [(wave, Fraction(1, 3)), (wave, gmpy2.mpq(1, 3)), (lambda x: math.erf(x), Decimal(1))])
def test_an_op_that_the_numbers_do_not_have_is_named(f: Any, x: Any) -> None:
    with pytest.raises(tg.UnknownFunction, match=f"(sin|erf) has no exact meaning for {type(x).__name__}"):
        tg.gradtape(f, 0.5).play(x)


def test_a_tape_with_arrays_is_not_rewritten() -> None:
    with pytest.raises(tg.GuardError, match="would round"):
        tg.gradtape(lambda x: (x * np.ones(2)).sum(), 1.0).play(Fraction(1, 3))
    tape = tg.gradtape(square, 1.0)
    before = tape.format()
    tape.play(Fraction(1, 3))
    assert tape.format() == before


class Line:
    def __init__(self) -> None:
        self.slope, self.start = 0.1, 3

    def at(self, x: Any) -> Any:
        return x * self.slope + self.start


@pytest.mark.parametrize("record", [lambda: tg.gradtape(Line().at, 1.3).play, lambda: tg.trace(Line().at, 1.3)[1].play])
def test_floats_that_a_program_captured(record: Any) -> None:
    def played(x: Any) -> Any:
        found = record()(x)
        return found[0] if type(found) is tuple else found

    assert played(Fraction(1, 3)) == Fraction(91, 30) and type(played(Fraction(1, 3))) is Fraction
    assert played(Decimal("0.3")) == Decimal("3.03")
    assert played(X) == X / 10 + 3


@pytest.mark.parametrize("y", [2, 2.0, np.float64(2.0)])
def test_floats_and_integers_beside_other_numbers(y: Any) -> None:
    tape = tg.gradtape(lambda x, y: x * y + x / y - 0.5 * y, 1.3, 2.5)
    assert tape.play(Fraction(1, 3), y) == (Fraction(-1, 6), (None, Fraction(5, 2), Fraction(-1, 4)))
    assert tape.play(y, Fraction(1, 3))[0] == Fraction(13, 2)
    assert tape.play(X, y)[0] == X * 2 + X / 2 - 1
    assert tape.play(1.3, 2.5)[1][1] == pytest.approx(2.9)
    with pytest.raises(tg.GuardError, match=r"y is Decimal, but another argument is Fraction"):
        tape.play(Fraction(1, 3), Decimal(2))


def test_literals_are_rounded_as_mpmath_rounds() -> None:
    for digits in (15, 40):
        with mpmath.workdps(digits):
            for k in range(1, 200):
                tape = tg.trace(lambda x, k=k: x * (k / 1000), 1.3)[1]
                assert tape.play(mpmath.mpf(1)) == mpmath.mpf(k) / 1000


@pytest.mark.parametrize("x", [Fraction(1, 3), gmpy2.mpq(1, 3), Decimal(1)])
def test_infinity_is_none_of_the_fractions(x: Any) -> None:
    def least(x: Any) -> Any:
        found = float("inf")
        for k in (1.0, 2.0):
            found = min(found, x * k)
        return found

    value, (_, dx) = tg.gradtape(least, 1.3).play(x)
    assert (value, dx) == (x, 1) and type(value) is type(x)
