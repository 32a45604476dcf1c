"""What a compiled tape on torch was recorded with: the kinds of numbers, what raises of them, NumPy's settings of errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")

Program = Callable[..., Any]


def of_kind(a: Any, n: Any) -> Any:
    """Return what depends on the type of a number."""
    kinds = (bool, np.bool_, np.ndarray, np.float64, np.float32, float, np.int64)
    return a.sum() * next((i for i, kind in enumerate(kinds) if isinstance(n, kind)), 10.0)


NUMBERS = [np.float64(1), np.float32(1), np.array(1.0), np.array(1.0, np.float32), 1.0, True, np.bool_(True), np.array(True), 1, np.int64(1), np.array(1)]


@pytest.mark.parametrize("maker", [tg.compile, tg.value_and_grad])
@pytest.mark.parametrize("order", [1, -1])
def test_the_kind_of_a_number_is_part_of_what_a_tape_is_for(maker: Any, order: int) -> None:
    step, a = maker(of_kind, backend="torch"), np.ones(2)
    for n in [*NUMBERS, *NUMBERS][::order]:
        y = step(a, n)
        assert float(y if maker is tg.compile else y[0]) == of_kind(a, n), repr(n)


def caught(fn: Program) -> Program:
    """Return a program that takes another path where `fn` raises."""
    def f(a: Any) -> Any:
        try:
            return fn(a) * a[1]
        except (ArithmeticError, ValueError):
            return a[1] * 3.0
    return f


def divided(a: Any) -> Any:
    """Return a quotient, which must not be infinite."""
    with np.errstate(divide="raise"):
        return (1 / a).sum()


@pytest.mark.parametrize(("fn", "good", "bad"), [
    (lambda a: math.exp(a[0]), 1.0, 1e3), (lambda a: 1 / math.exp(a[0]), 1.0, 1e3), (lambda a: math.sin(a[0]), 1.0, math.inf),
    (lambda a: math.gamma(a[0]), 1.5, 1e3), (lambda a: math.pow(a[0], -1), 1.0, 0.0), (lambda a: math.sqrt(a[0]), 1.0, -1.0),
    (lambda a: 1 / math.sin(a[0]), 1.0, 0.0), (lambda a: math.exp(a[0]) ** 400, 1.0, 10.0),
    (divided, 1.0, 0.0)])
def test_what_raises_of_a_number_raises_of_a_tensor_that_stands_for_it(fn: Program, good: float, bad: float) -> None:
    f = caught(fn)
    for order in ([good, bad], [bad, good]):
        for maker in (tg.compile, tg.value_and_grad):
            step = maker(f, backend="torch")
            for x in [order[0], *order, *order]:
                a = np.array([x, 2.0])
                y = step(a)
                assert math.isclose(float(y if maker is tg.compile else y[0]), f(a)), x


def test_a_replay_on_tensors_raises_what_math_raises() -> None:
    _, tape = tg.trace(lambda a: math.exp(a[0]), np.array([1.0]))
    with pytest.raises(OverflowError, match="range"):
        tape.play(torch.tensor([1e3], dtype=torch.float64))


def test_settings_of_errors_are_nothing_to_torch_code() -> None:
    def f(x: Any) -> Any:
        with np.errstate(divide="raise"):
            return (1 / x).sum()
    step = tg.compile(f, backend="torch")
    for x in (1.0, 1.0, 0.0):
        assert step(torch.tensor([x])) == f(torch.tensor([x]))
    assert step.stats.traces <= 2


def gaps(x: Any) -> Any:
    y = np.zeros(2 * len(x))[::2]
    y[...] = x
    return y


def locked(x: Any) -> Any:
    x.flags.writeable = False
    return x


def through_ravel(a: Any, b: Any) -> Any:
    a.ravel()[::2] = 5.0
    return (a * b).sum()


def by_strides(a: Any, b: Any) -> Any:
    return a.sum() * (a * 2.0).strides[0] + b.strides[0] if b.flags.c_contiguous else (a * b).sum()


def to_the_other(a: Any, b: Any) -> Any:
    a[0] = 5.0
    return (a * b).sum()


def where_writable(a: Any, b: Any) -> Any:
    try:
        a[0] = 5.0
    except ValueError:
        a = a * 2.0
    return (a * b).sum()


@pytest.mark.parametrize("f", [through_ravel, by_strides, to_the_other, where_writable])
def test_how_arrays_lie_in_memory_is_asked_before_they_are_tensors(f: Any) -> None:
    def calls() -> list[Any]:
        x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
        plain = [(x.copy(), y.copy()) for _ in range(3)]
        return [*plain, (gaps(x), y), (x[::-1].copy()[::-1], gaps(y)), (locked(x.copy()), y), *plain, (shared := x.copy(), shared), (both := x.copy(), both[::-1])]

    for run, of in zip((tg.value_and_grad(f, argnums=None, backend="torch"), tg.compile(f, backend="torch")), (tg.grad, lambda f, *args: (tg.trace(f, *args)[0], None))):
        for args, again in zip(calls(), calls()):
            try:
                want, _ = of(f, *args)
            except (tg.MutationError, ValueError) as err:
                with pytest.raises(type(err)):
                    run(*again)
            else:
                got = run(*again)
                assert float(got[0] if isinstance(got, tuple) else got) == pytest.approx(float(want), rel=1e-12)


@pytest.mark.parametrize("compared", [
    lambda x, n: x > -5, lambda x, n: x < 300, lambda x, n: np.less_equal(256, x), lambda x, n: x == 257, lambda x, n: x != -1,
    lambda x, n: np.greater(x, n), lambda x, n: x >= -n, lambda x, n: x == n])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int64, bool])
def test_short_integers_are_compared_with_long_ones(compared: Program, dtype: Any) -> None:
    def f(x: Any, n: Any, y: Any) -> Any:
        return np.where(compared(x, n), y, -2.0 * y).sum()
    x, y = np.array([0, 1, 44, 127, 1]).astype(dtype), np.arange(5.0) + 1.0
    step, run = tg.value_and_grad(f, argnums=None, backend="torch"), tg.compile(f, backend="torch")
    for n in (3, 3, 300, 257, 3, -256, 70000):
        value, (_, *_, dy) = step(x, n, y)
        assert float(value) == float(run(x, n, y)) == f(x, n, y)
        np.testing.assert_array_equal(dy, tg.grad(f, x, n, y)[1][3])


def test_powers_of_integers_by_floats_are_floats() -> None:
    for p in (2.0, 1.0, 0.5, 3.0):
        for x in (np.array([200, 3], np.uint8), np.array([2**40, 7]), np.array([60000.0, 2.0], np.float32)):
            want = np.sum(x ** p)
            for backend in ("numpy", "torch"):
                run = tg.compile(lambda x, p=p: np.sum(x ** p), backend=backend)
                for _ in range(3):
                    assert float(run(x)) == pytest.approx(float(want), rel=1e-6), (p, x.dtype, backend)
