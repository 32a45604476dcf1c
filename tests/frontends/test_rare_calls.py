"""Calls of a rare form are, at every call and in every mode, what they are in plain NumPy, or refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

NAN = float("nan")
X, MATRIX, WHICH = np.arange(3.0), np.arange(6.0).reshape(2, 3), np.array([0, 1, 0])


def into(f: Callable[[Any], Any], out: Any) -> tuple[Any, Any]:
    """Return what a call returns, and what it has written."""
    return f(out), out


def plainly(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return a value, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except Exception as err:
            return type(err)


def check(f: Callable[..., Any], *args: Any) -> None:
    """Compare a trace, a replay and a compiled function with plain NumPy."""
    wanted = plainly(f, args)
    if isinstance(wanted, type):
        assert plainly(lambda *args: tg.trace(f, *args), args) is wanted
        return
    ways = [lambda *args: tg.trace(f, *args)[0], lambda *args: tg.trace(f, *args)[1].play(*args), *[tg.compile(f, warmup=1)] * 3]
    for way in ways:
        found = plainly(way, args)
        for a, b in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("f", [
    lambda x: np.nanmax([x, x], initial=1.0), lambda x: np.nanmin([x, [NAN, 2.0]], axis=0, initial=5.0), lambda x: np.nanmax(x, initial=1.0),
    lambda x: np.nanmax([x, x], where=[[True], [False]], axis=0, initial=1.0), lambda x: np.nanmax(x, where=False, initial=1.0, keepdims=True),
    lambda x: np.fmax.reduce([x, x], initial=1.0), lambda x: np.fmin.reduce([x, x], axis=0)])
@pytest.mark.parametrize("x", [[NAN, NAN], [NAN, 3.0], np.array([NAN, NAN]), np.array([NAN, 0.0])], ids=str)
def test_extrema_of_nothing_but_nan(f: Callable[[Any], Any], x: Any) -> None:
    check(f, x)


@pytest.mark.parametrize("x", [NAN, 2.0, np.float64(NAN), np.array(NAN)], ids=str)
def test_extrema_of_a_number(x: Any) -> None:
    check(lambda x: np.nanmax(x, where=np.asarray(x) > 0, initial=1.0), x)


def test_the_choices_of_the_method_are_all_its_arguments() -> None:
    check(lambda which, x: into(lambda out: which.choose([x, 2 * x], out), np.zeros(3)), WHICH, X)
    check(lambda which, x: into(lambda out: which.choose([x, 2 * x], out=out), np.zeros(3)), WHICH, X)
    check(lambda which, x: which.choose(x, 2 * x), WHICH, X)


@pytest.mark.parametrize("n", [2.7, np.float64(2.7), np.array(2.7), [2.7], np.array([2.7]), True, -1.5, 2, [1, 2, 0], np.array([1, 2, 0]), [1.0, 2.5, 0.0]], ids=repr)
def test_floats_as_counts(n: Any) -> None:
    check(lambda x: np.repeat(x, n), X)
    check(lambda x: np.roll(x, n), X)
    check(np.repeat, X, n)
    check(np.roll, X, n)


def test_a_count_is_guarded() -> None:
    with pytest.raises(tg.GuardError):
        tg.trace(np.repeat, X, 2.5)[1].play(X, 3.5)


@pytest.mark.parametrize("k", [-1.5, -0.5, 0.5, 1.5])
@pytest.mark.parametrize("fn", [np.tril, np.triu])
@pytest.mark.filterwarnings("ignore:Cannot convert float safely:DeprecationWarning")  # since NumPy 2.5
def test_diagonals_of_a_fraction_on_torch(fn: Any, k: float) -> None:
    compiled = tg.compile(eval(f"lambda x: np.{fn.__name__}(x, {k})"), backend="torch", warmup=1)
    for x in (np.ones((3, 3)), X, np.ones((2, 3, 4)), X):
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(compiled(x)), fn(x, k))


def test_what_numpy_does_not_write_to() -> None:
    check(lambda x: into(lambda out: np.fft.ifft2(x, out=out), np.zeros((2, 3))), MATRIX)
    check(lambda x: into(lambda out: np.fft.ifft2(x, out=out), np.zeros((2, 3), complex)), MATRIX)
    check(lambda x: into(lambda out: np.fft.fft2(x, out=out), np.zeros((2, 3), complex)), MATRIX)


def test_a_product_that_is_broadcast_into_its_own_argument_is_refused() -> None:
    def f(x: Any, y: Any) -> Any:
        np.vecdot(x, y, x)
        return x
    with pytest.raises(tg.MutationError, match="own memory"):
        tg.trace(f, np.ones((3, 3)), np.ones((3, 3)))
    check(lambda x, y: into(lambda out: np.vecdot(x, y, out), np.zeros((4, 2))), MATRIX, MATRIX + 1)
    check(lambda x: into(lambda out: np.matmul(out, out, out), x.copy()), np.arange(9.0).reshape(3, 3))
