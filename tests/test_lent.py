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
RUNS = [tg.grad, tg.gradtape, tg.trace, lambda f, x: tg.compile(f)(x), lambda f, x: tg.value_and_grad(f)(x)]


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
