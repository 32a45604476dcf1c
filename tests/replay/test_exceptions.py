"""Exceptions are guards: a replay never returns what the program's other path would have, whether the error is caught or its call's value dead."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.harness.run import exported

ERRORS = (ArithmeticError, ValueError, LookupError, np.linalg.LinAlgError, StopIteration, AssertionError)
MATRIX, SINGULAR, BAD = np.array([[2.0, 1.0], [1.0, 3.0]]), np.zeros((2, 2)), -np.eye(2)
X, INF = np.array([1.0, 2.0, 4.0]), math.inf


def _used(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a program that catches what a call raises, and uses its value."""
    def used(x: Any, *rest: Any) -> Any:
        try:
            y = call(x, *rest)
        except ERRORS:
            y = np.sum(x) * 5.0
        return np.sum(y * 2.0) + np.sum(x)
    return used


def _dead(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a program for which it counts alone whether a call raises."""
    def dead(x: Any, *rest: Any) -> Any:
        with contextlib.suppress(*ERRORS):
            call(x, *rest)
            return np.sum(x) * 3.0
        return np.sum(x) * 5.0
    return dead


def _written(x: Any, at: Any) -> Any:
    y = np.zeros(3)
    y[at] = x[0]
    return y


def _into_two(x: Any) -> Any:
    y = np.zeros(2)
    y[:] = x[x > 1.0]
    return y


def _positive(x: Any) -> Any:
    if not x > 0:
        raise AssertionError  # as `assert` does, which pytest makes code of its own of
    return x


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "int": (lambda s: int(s) * s, (1.7,), (INF,)),
    "int nan": (lambda s: int(s) * s, (1.7,), (math.nan,)),
    "floor": (lambda s: math.floor(s) * s, (1.7,), (INF,)),
    "ceil": (lambda a: math.ceil(a[0]) * a[0], (X,), (X * INF,)),
    "trunc": (lambda s: math.trunc(s) * s, (1.7,), (INF,)),
    "round": (lambda s: round(s) * s, (1.7,), (INF,)),
    "fsum": (lambda s: math.fsum([s, s]), (1.7,), (1e308,)),
    "remainder": (lambda s: math.remainder(s, 2.0), (1.7,), (INF,)),
    "pow": (lambda s: 1 / math.pow(s, 400), (1.0,), (1e3,)),
    "pow element": (lambda a: math.pow(a[0], -1), (X,), (X - 1.0,)),
    "ldexp": (lambda s: math.ldexp(s, 2000), (0.0,), (1.0,)),
    "**": (lambda s: s ** 400, (1.5,), (1e3,)),
    "log": (lambda s: math.log(s), (1.7,), (-1.7,)),
    "quotient": (lambda s: 1.0 / s, (1.7,), (0.0,)),
    "divmod": (lambda s: divmod(2.0, s)[1], (1.7,), (0.0,)),
    "shift": (lambda s, n: s * (1 << n), (1.7, 2), (1.7, -2)),
    "power of integers": (lambda s, n: s * np.arange(1, 3) ** n, (1.7, 2), (1.7, -2)),
    "cholesky": (np.linalg.cholesky, (MATRIX,), (BAD,)),
    "solve": (lambda a: np.linalg.solve(a, np.ones(2)), (MATRIX,), (SINGULAR,)),
    "solve triangular": (lambda a: np.linalg.solve(np.tril(a), np.ones(2)), (MATRIX,), (SINGULAR,)),
    "inv": (np.linalg.inv, (MATRIX,), (SINGULAR,)),
    "element": (lambda a, i: a[i], (X, 1), (X, 5)),
    "elements": (lambda a, i: a[i], (X, np.array([0, 2])), (X, np.array([0, 5]))),
    "take": (lambda a, i: np.take(a, i), (X, np.array([0, 2])), (X, np.array([0, 5]))),
    "write": (_written, (X, 1), (X, 5)),
    "writes": (_written, (X, np.array([0, 2])), (X, np.array([0, 5]))),
    "write of another length": (_into_two, (X,), (X + 1.0,)),
    "sum of another length": (lambda a: a[a > 1.0] + np.ones(2), (X,), (X + 1.0,)),
    "empty": (lambda a: a[a > 1.0].max(), (X,), (-X,)),
    "unpacked": (lambda a: (lambda p, q: p * q)(*(lambda p, q: (p, q))(*a[a > 1.0])) if len(a[a > 1.0]) == 2 else [][0], (X,), (X + 1.0,)),
    "bincount": (lambda s, n: s * np.bincount(n).sum(), (1.7, np.array([1, 2])), (1.7, np.array([1, -2]))),
    "digitize": (lambda a: np.digitize(0.5, a) * a, (X,), (np.array([1.0, 4.0, 2.0]),)),
    "key": (lambda s: {1: 2.0}[int(s)] * s, (1.7,), (2.7,)),
    "index of": (lambda s: [1.0, 2.0].index(s) * s, (2.0,), (3.0,)),
    "next": (lambda a: next(x for x in a if x > 3.0), (X,), (-X,)),
    "assert": (_positive, (1.7,), (-1.7,)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrap", [_used, _dead])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replay_takes_the_programs_path(name: str, wrap: Any) -> None:
    call, good, bad = PROGRAMS[name]
    f = wrap(call)
    fast, step = tg.compile(f), tg.value_and_grad(f, argnums=None)
    for args in (good, good, bad, bad, good):
        np.testing.assert_allclose(fast(*args), f(*args), rtol=1e-14)
        (value, (_, dx, *_)), (right, (_, expected, *_)) = step(*args), tg.grad(f, *args)
        np.testing.assert_allclose(value, right, rtol=1e-14)
        np.testing.assert_allclose(dx, expected, rtol=1e-14)
    for before, after in ((good, bad), (bad, good)):
        tape = tg.trace(f, *before)[1]
        runs = [tape.play, tg.optimise(tape).play, tg.compile(tape)]
        with contextlib.suppress(tg.ArgumentError):  # a call that raised has no source
            runs.append(exported(tape))
        for run in runs:
            np.testing.assert_allclose(run(*before), f(*before), rtol=1e-14)
            with contextlib.suppress(*ERRORS, tg.TapeError):  # refused; the error itself, of which the caller knows whether the program caught it
                np.testing.assert_allclose(run(*after), f(*after), rtol=1e-14)


def test_a_loop_keeps_what_may_raise() -> None:
    def f(s: Any) -> Any:
        total = 0.0
        for i in range(3000):
            with contextlib.suppress(ZeroDivisionError):
                1.0 / (s - i)
                total = total + 0.001 * s
        return total
    step = tg.value_and_grad(f, argnums=None)
    for s in (0.5, 0.5, 500.0, 0.5):
        assert step(s)[0] == pytest.approx(f(s))


@pytest.mark.quick
def test_maths_functions_of_several_numbers_are_exact() -> None:
    assert tg.grad(lambda a, b: math.fsum([a, b, -a]), 1e16, 1.0) == (1.0, (None, 0.0, 1.0))
    assert tg.grad(lambda a: math.remainder(a, 3.0), 1e20)[0] == math.remainder(1e20, 3.0)
    assert tg.grad(lambda a: math.hypot(a, 1.0, 2.0), 1e200) == (1e200, (None, 1.0))


@pytest.mark.parametrize("call", [
    lambda a, b: np.cumsum(a, axis=-1, out=np.empty_like(b)), lambda a, b: np.add(a, 1.0, out=b[:, :2]), lambda a, b: a.sum(axis=0, out=b), lambda a, b: np.modf(a, out=(b[:, :1], None))])
def test_an_array_that_a_result_does_not_fit_into(call: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        try:
            y = call(a, b)
        except ValueError:
            y = a * 2
        return np.sum(y) + b.sum()
    args = np.arange(3.0), np.ones((2, 3))
    value, tape = tg.trace(f, *args)
    compiled, gradient = tg.compile(f), tg.value_and_grad(f, argnums=None)
    assert value == f(*args) == tape.play(*args) == tg.compile(tape)(*args)
    assert all(compiled(*args) == value == gradient(*args)[0] for _ in range(3))
    assert compiled.stats.hits
    np.testing.assert_array_equal(args[1], np.ones((2, 3)))
