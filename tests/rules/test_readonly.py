"""What a user's function is given of arrays: no primitive, rule or pullback changes the caller's, or another operation's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tg


@tg.primitive
def doubled(x: Any) -> Any:
    x *= 2.0
    return x


@tg.rrule(doubled)
def _(x: Any) -> Any:
    x *= 2.0
    return x, lambda dy: (2.0 * dy,)


@tg.primitive
def by_key(nest: Any) -> Any:
    nest["a"].sort()
    return nest["a"][0]


@tg.primitive
def by_name(nest: Any) -> Any:
    nest.a[0] = 5.0
    return nest.a[1]


PROGRAMS = [
    lambda x: np.sum(doubled(x)), lambda x: np.sum(doubled(x.copy())), lambda x: np.sum(doubled(1.0 * x)), lambda x: np.sum(doubled(x[1:])),
    lambda x: np.sum(doubled(x * 3.0) + x), lambda x: np.sum(doubled(np.ones(3) * 1.0) + x), lambda x: by_key({"a": x.copy()}) * 2.0,
    lambda x: by_name(SimpleNamespace(a=x * 2.0)) * 2.0,
]
RUNS = [tg.grad, tg.gradtape, tg.trace, lambda f, x: tg.compile(f)(x), lambda f, x: tg.value_and_grad(f, argnums=None)(x)]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_write_is_refused(f: Any, run: Any) -> None:
    x = np.array([3.0, 1.0, 2.0])
    with pytest.raises(tg.MutationError, match="writes to its argument") as caught:
        run(f, x)
    assert x.tolist() == [3.0, 1.0, 2.0]
    assert caught.value.where is not None and caught.value.where.file == __file__ and "copy" in (caught.value.try_ or "")


def test_a_pullback_does_not_write_to_the_cotangent() -> None:
    same = tg.primitive(lambda x: x * 1.0)

    def rule(x: Any) -> Any:
        def pullback(dy: Any) -> Any:
            dy *= 2.0
            return (dy,)
        return x * 1.0, pullback
    tg.rrule(same)(rule)
    with pytest.raises(tg.MutationError, match="pullback of <lambda> writes"):
        tg.grad(lambda x, y: np.sum((same(x) + y) ** 2), np.ones(3), np.ones(3))


def test_other_errors_stay_what_they_are() -> None:
    refuses = tg.primitive(lambda x: np.zeros(x).reshape(-1, 5))
    with pytest.raises(ValueError, match="reshape") as caught:
        tg.trace(refuses, 3)
    assert not isinstance(caught.value, tg.TapeError)


def test_what_comes_back_as_it_was_given_is_the_array_itself() -> None:
    same = tg.primitive(lambda x: x)
    tg.rrule(same)(lambda x: (x, lambda dy: (dy,)))
    x = np.ones(3)
    assert same(x) is x and x.flags.writeable
    value, (_, dx) = tg.grad(lambda x: np.sum(same(x) * same(x)), x)
    assert value == 3.0 and dx.tolist() == [2.0, 2.0, 2.0] and dx.flags.writeable

    def written(x: Any) -> Any:
        y = same(x)
        y[0] = 7.0
        return y * 1.0
    for run in (lambda: tg.trace(written, x)[0], lambda: tg.compile(written)(x), lambda: tg.trace(written, x)[1].play(x)):
        assert run().tolist() == [7.0, 1.0, 1.0] and x.tolist() == [1.0, 1.0, 1.0]


# -- what a user's function returns and does not give away

HELD = np.ones(3)
RETURNED: list[Any] = []


def _ruled(fn: Any, pullback: Any) -> Any:
    op = tg.primitive(fn)
    tg.rrule(op)(lambda x: (fn(x), lambda dy: pullback(x, dy)))
    return op


def _kept(x: Any) -> Any:
    RETURNED.append(2.0 * x)
    return RETURNED[-1]


def _filled(x: Any) -> Any:
    HELD[:] = 2.0 * x
    return HELD


same = _ruled(lambda x: x, lambda x, dy: (dy,))
tail = _ruled(lambda x: x[1:], lambda x, dy: (np.append(0.0, dy),))
turned = _ruled(lambda x: x.T, lambda x, dy: (dy.T,))
twice = _ruled(lambda x: (x, x), lambda x, dys: (dys[0] + dys[1],))
listed = _ruled(lambda x: [x, 2.0 * x], lambda x, dys: (dys[0] + 2.0 * dys[1],))
keeping = _ruled(_kept, lambda x, dy: (2.0 * dy,))
filling = _ruled(_filled, lambda x, dy: (2.0 * dy,))
holding = _ruled(lambda x: HELD, lambda x, dy: (0.0 * x,))


def _written(x: Any, part: Any, used: Any) -> Any:
    part += 1.0
    return np.sum(used * x) if used is not x else np.sum(x * x)


def _late(x: Any) -> Any:
    first = filling(x)
    return np.sum(first * filling(3.0 * x))


SHARING = [
    lambda x: _written(x, same(x), x), lambda x: _written(x, x, same(x)), lambda x: _written(x, tail(x), x), lambda x: _written(x, same(same(x))[1:], x),
    lambda x: _written(x, turned(z := x * np.ones((3, 1))), z), lambda x: _written(x, z := 2.0 * x, same(z)),
    lambda x: _written(x, (pair := twice(2.0 * x))[0], pair[1]), lambda x: _written(x, listed(z := x * 1.0)[0], z),
    lambda x: _written(x, keeping(x), RETURNED[-1]), lambda x: _written(x, filling(x), HELD), lambda x: _written(x, holding(x), HELD), _late,
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("f", SHARING)
def test_a_write_to_what_a_function_returned_and_shares_is_refused(f: Any, run: Any) -> None:
    x = np.array([3.0, 1.0, 2.0])
    HELD[:] = 1.0
    with pytest.raises(tg.MutationError, match=r"share memory|still refers to|later call") as caught:
        run(f, x)
    assert x.tolist() == [3.0, 1.0, 2.0]
    assert caught.value.where is not None and caught.value.where.file == __file__


def test_a_write_by_another_name_to_what_a_function_returned_is_refused() -> None:
    def f(x: Any) -> Any:
        y = keeping(x)
        RETURNED[-1][0] = 7.0
        return np.sum(y * x)
    with pytest.raises(tg.MutationError, match="through another reference"):
        tg.trace(f, np.ones(3))


class _Pullback:
    def __init__(self, y: Any) -> None:
        self.y = y

    def __call__(self, dy: Any) -> Any:
        return (dy * self.y,)


def _of_exp(make: Any) -> Any:
    op = tg.primitive(lambda x: np.exp(x))
    tg.rrule(op)(lambda x: (y := np.exp(x), make(y)))
    return op


@pytest.mark.parametrize("make", [lambda y: lambda dy: (dy * y,), lambda y: (lambda inner: lambda dy: (inner(dy),))(lambda dy: dy * y), _Pullback])
def test_what_only_the_pullback_holds_may_be_written_to(make: Any) -> None:
    exp = _of_exp(make)

    def f(x: Any) -> Any:
        y = exp(x)
        y += x
        return np.sum(y * x)
    x = np.array([0.5, 1.0])
    for run in (tg.grad, lambda f, x: tg.gradtape(f, x).play(x), lambda f, x: tg.value_and_grad(f, argnums=None)(x)):
        assert np.allclose(run(f, x)[1][1], np.exp(x) * (1.0 + x) + 2.0 * x)


def test_a_pullback_may_return_one_array_again_and_again() -> None:
    found = np.zeros(2)

    def pullback(x: Any, dy: Any) -> Any:
        np.multiply(dy, 2.0, out=found)
        return (found,)
    double = _ruled(lambda x: 2.0 * x, pullback)
    x = np.array([1.0, 2.0])
    dx = tg.grad(lambda x: np.sum(double(x) * 3.0 + double(x) * 5.0), x)[1][1]
    assert dx.tolist() == [16.0, 16.0]
    assert tg.gradtape(lambda x: np.sum(double(x) * 3.0 + double(x) * 5.0), x).play(x)[1][1].tolist() == [16.0, 16.0]
    assert dx is not found


def test_a_replay_where_a_result_is_the_argument_is_another() -> None:
    rows = _ruled(lambda x: np.ascontiguousarray(x), lambda x, dy: (dy,))

    def f(x: Any) -> Any:
        y = rows(x)
        y *= 2.0
        return np.sum(x * y)
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for _ in range(3):
        assert step(x)[0] == 110.0
    tape = tg.trace(f, x)[1]
    for replay in (tape, tg.gradtape(f, x), tg.flatgrad(tape)):
        replay.play(x)
        with pytest.raises(tg.GuardError):
            replay.play(np.ascontiguousarray(x))
    with pytest.raises(tg.MutationError):
        step(np.ascontiguousarray(x))
