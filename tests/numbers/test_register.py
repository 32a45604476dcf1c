"""register: a user's class is a number, with zero and one, promotion, conjugate and elementary functions of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.numbers import systems


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(systems, "SYSTEMS", dict(systems.SYSTEMS))
    systems.forget()
    yield
    systems.forget()


class Dual:
    def __init__(self, a: Any, b: Any = 0.0) -> None: self.a, self.b = a, b
    def __add__(self, o: Any) -> Dual: return Dual(self.a + dual(o).a, self.b + dual(o).b)
    def __mul__(self, o: Any) -> Dual: return Dual(self.a * dual(o).a, self.a * dual(o).b + self.b * dual(o).a)
    def __truediv__(self, o: Any) -> Dual: return Dual(self.a / dual(o).a, (self.b * dual(o).a - self.a * dual(o).b) / dual(o).a ** 2)
    def __rtruediv__(self, o: Any) -> Dual: return dual(o) / self
    def __neg__(self) -> Dual: return self * -1
    def __pow__(self, n: int) -> Dual: return Dual(self.a ** n, n * self.a ** (n - 1) * self.b)
    __radd__, __rmul__ = __add__, __mul__


def dual(x: Any) -> Dual:
    return x if isinstance(x, Dual) else Dual(x)


WAVES = {"sin": lambda x: Dual(math.sin(x.a), math.cos(x.a) * x.b), "cos": lambda x: Dual(math.cos(x.a), -math.sin(x.a) * x.b)}


def test_dual_numbers_carry_a_second_derivative_along() -> None:
    tg.numbers.register(Dual, dual, WAVES)

    def f(x: Any) -> Any:
        return np.sin(x) * x ** 2 + 0.5 / x
    _, (_, slope) = tg.grad(f, 2.0)
    second = tg.hessian(f)(2.0)
    tape = tg.gradtape(f, 1.5)
    for value, (_, dx) in (tg.grad(f, Dual(2.0, 1.0)), tape.play(Dual(2.0, 1.0)), tg.primitivize(tape).play(Dual(2.0, 1.0))):
        assert value.a == pytest.approx(f(2.0)) and value.b == pytest.approx(slope) and dx.a == pytest.approx(slope) and dx.b == pytest.approx(second)
    third = tg.hessian(lambda x: x ** 3)(Dual(2.0, 1.0))
    assert (third.a, third.b) == (12, 6)
    dx = tg.gradient(lambda x: np.sum(x * x * x), np.array([Dual(2.0, 1.0), Dual(3.0)]))[0]
    assert [(x.a, x.b) for x in dx] == [(12, 12), (27, 0)]
    with pytest.raises(tg.UnknownFunction, match="tan has no exact meaning for Dual"):
        tg.grad(np.tan, Dual(2.0, 1.0))


class Interval:
    def __init__(self, low: float, high: float | None = None) -> None: self.low, self.high = low, low if high is None else high
    def __add__(self, o: Any) -> Interval: return Interval(self.low + interval(o).low, self.high + interval(o).high)
    def __mul__(self, o: Any) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (interval(o).low, interval(o).high)]
        return Interval(min(ends), max(ends))
    def __neg__(self) -> Interval: return Interval(-self.high, -self.low)
    __radd__, __rmul__ = __add__, __mul__


def interval(x: Any) -> Interval:
    return x if isinstance(x, Interval) else Interval(float(x))


def test_intervals_of_fifteen_lines() -> None:
    tg.numbers.register(Interval, interval, {"exp": lambda x: Interval(math.exp(x.low), math.exp(x.high))})
    dx = tg.gradtape(lambda x: np.exp(x) * x + 3 * x, 1.5).play(Interval(1.0, 2.0))[1][1]
    assert (dx.low, dx.high) == (2 * math.e + 3, 3 * math.e ** 2 + 3)


class Gaussian:
    def __init__(self, re: Any, im: Any = 0) -> None: self.re, self.im = Fraction(re), Fraction(im)
    def __add__(self, o: Any) -> Gaussian: return Gaussian(self.re + gaussian(o).re, self.im + gaussian(o).im)
    def __mul__(self, o: Any) -> Gaussian:
        o = gaussian(o)
        return Gaussian(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)
    def __neg__(self) -> Gaussian: return self * -1
    def __eq__(self, o: object) -> bool: return (self.re, self.im) == (gaussian(o).re, gaussian(o).im)
    __radd__, __rmul__, __hash__ = __add__, __mul__, None  # type: ignore[assignment]


def gaussian(x: Any) -> Gaussian:
    """Return a number as one of the class: its own promotion, zero and one."""
    if x == 0 or x == 1:
        return ONE if x else ZERO
    return x if isinstance(x, Gaussian) else Gaussian(x.real, x.imag) if isinstance(x, complex) else Gaussian(x)


ZERO, ONE = Gaussian.__new__(Gaussian), Gaussian.__new__(Gaussian)
ZERO.re, ZERO.im, ONE.re, ONE.im = Fraction(0), Fraction(0), Fraction(1), Fraction(0)


def test_a_conjugate_and_zero_and_one_of_ones_own() -> None:
    def convert(x: Any) -> Gaussian:
        return x if type(x) is Gaussian else ZERO if x == 0 else ONE if x == 1 else gaussian(x)
    tg.numbers.register(Gaussian, convert, {"conjugate": lambda z: Gaussian(z.re, -z.im), "real": lambda z: Gaussian(z.re)}, is_complex=True)
    z = Gaussian(3, Fraction(1, 2))
    assert tg.grad(lambda z: z * np.conj(z), z, seed=ONE)[1][1] == Gaussian(6, 1)
    assert tg.grad(lambda z: z * z, z, seed=ONE)[1][1] == Gaussian(6, -1)  # the conjugate of 2 z
    assert tg.grad(lambda z, w: z * z, z, z, seed=ONE)[1][2] is ZERO
