"""Intervals of mpmath: every value and slope encloses the exact one, and what they leave undecided is refused."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tapegrad as tg

iv = mpmath.iv
X, P, ACROSS = iv.mpf([1, 2]), iv.mpf(["0.1", "0.2"]), iv.mpf([-1, 2])
NAMES = ["sqrt", "exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arctanh", "expm1", "log1p", "log2", "log10", "exp2", "square"]


def encloses(found: Any, wanted: Any) -> bool:
    return bool(mpmath.mpf(found.a.a) <= wanted <= mpmath.mpf(found.b.b)) if isinstance(found, iv.mpf) else False


@pytest.mark.parametrize("name", NAMES)
def test_elementary_functions_and_their_slopes_are_enclosed(name: str) -> None:
    f = getattr(np, name)
    value, (_, dx) = tg.gradtape(f, 0.15).play(P)
    for at in np.linspace(0.1, 0.2, 9):
        low, high = f(at) - 1e-14, f(at) + 1e-14
        assert value.a <= high and value.b >= low
        slope = tg.gradient(f, float(at))[0]
        assert dx.a <= slope + 1e-12 and dx.b >= slope - 1e-12
    assert dx.delta < 10


def test_arguments_replays_and_higher_orders() -> None:
    def f(x: Any) -> Any:
        return 0.1 * np.sin(x) * np.exp(-x) + x ** 3 - 1 / x

    tape = tg.gradtape(f, 1.5)
    with mpmath.workdps(40):
        points = [mpmath.mpf(1) + mpmath.mpf(k) / 16 for k in range(17)]
        exact = [(mpmath.mpf("0.1") * mpmath.sin(x) * mpmath.exp(-x) + x ** 3 - 1 / x,
                  mpmath.mpf("0.1") * (mpmath.cos(x) - mpmath.sin(x)) * mpmath.exp(-x) + 3 * x ** 2 + 1 / x ** 2) for x in points]
        for value, (_, dx) in (tg.grad(f, X), tape.play(X), tg.primitivize(tape).play(X)):
            assert all(encloses(value, y) and encloses(dx, slope) for y, slope in exact)
        value, (_, dx) = tape.play(iv.mpf(2))  # the rounding errors of every intermediate are in it
        assert encloses(value, exact[-1][0]) and encloses(dx, exact[-1][1]) and dx.delta < 1e-13
    assert tg.gradient(lambda x: tg.gradient(lambda z: z ** 3, x)[0], X)[0] == iv.mpf([6, 12])
    assert tg.jvp(lambda x: x * x, (X,), (1,))[1] == iv.mpf([2, 4])
    assert tg.grad(lambda x: iv.exp(x) * iv.atan2(x, 1), X)[1][1].a > 0
    fast = tg.value_and_grad(lambda x: x * x + 1)
    assert [fast(X) for _ in range(3)] == [(iv.mpf([2, 5]), iv.mpf([2, 4]))] * 3
    dx = tg.gradient(lambda x: np.sum(x ** 3), np.array([X, ACROSS]))[0]
    assert list(dx) == [iv.mpf([3, 12]), iv.mpf([0, 12])]


def kink(x: Any) -> Any:
    return x if x > 0 else -x


def test_what_is_undecided_is_refused() -> None:
    assert tg.grad(kink, X)[1][1] == 1 and tg.gradtape(kink, 0.5).play(X)[1][1] == 1
    assert tg.grad(abs, ACROSS)[1][1] == iv.mpf([-1, 1]) and tg.grad(lambda x: np.maximum(x, 0), X)[1][1] == 1
    for run in (lambda: tg.grad(kink, ACROSS), lambda: tg.gradtape(kink, 0.5).play(ACROSS), lambda: tg.grad(lambda x: np.maximum(x, 0), ACROSS),
                lambda: tg.grad(lambda x: max(x, 0), ACROSS), lambda: tg.grad(lambda x: np.where(x > 0, x, -x), ACROSS),
                lambda: tg.grad(lambda x: x if x == 1.5 else -x, X), lambda: tg.grad(lambda x: x if x else 2 * x, ACROSS)):
        with pytest.raises(tg.UnknownFunction, match="neither true nor false"):
            run()
    for f in (lambda x: np.sum(x[x > 0]), lambda x: np.max(x), lambda x: np.sort(x)[0]):
        with pytest.raises(tg.UnknownFunction, match="array of intervals"):
            tg.grad(f, np.array([X, ACROSS]))
    with pytest.raises(tg.GuardError):
        tg.trace(lambda x: x > 0, np.array([1, 2], object))[1].play(np.array([X, ACROSS]))
    for f, args in ((lambda x: iv.mpf([1, 2]) * x, (0.5,)), (lambda x, y: x * y, (X, 2.0))):
        with pytest.raises(tg.TapeError, match=r"interval|ivmpf"):
            tg.grad(f, *args)
    with pytest.raises(tg.UnknownFunction, match="erf has no exact meaning for ivmpf"):
        tg.gradtape(tg.ops.erf, 0.5).play(P)
    tape = tg.gradtape(lambda x: x * x, X)
    iv.prec, before = 80, iv.prec
    try:
        with pytest.raises(tg.GuardError, match="interval precision"):
            tape.play(X)
    finally:
        iv.prec = before
