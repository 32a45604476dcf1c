"""Functions of functions are pickled by their name, or as they were made; what they have compiled is made anew."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

X = np.arange(3.0)


def loss(x: Any) -> Any:
    return (x**3).sum()


@tg.compile
def decorated(x: Any) -> Any:
    return (x**3).sum()


@tg.value_and_grad
def with_gradient(x: Any) -> Any:
    return (x**3).sum()


@tg.hessian
def curvature(x: Any) -> Any:
    return (x**3).sum()


class Model:
    @staticmethod
    @tg.compile
    def loss(x: Any) -> Any:
        return (x**3).sum()


MADE: list[Any] = [
    tg.compile(loss),
    tg.value_and_grad(loss),
    tg.value_and_grad(loss, argnums=0, warmup=1),
    tg.value_and_grad(loss, seed=2.0),
    tg.jacobian(loss),
    tg.value_and_jacobian(loss, argnums=(0,)),
    tg.hessian(loss),
]


@pytest.mark.parametrize("number", range(len(MADE)))
@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_what_was_made_of_a_function_is_made_again(number: int, again: Any) -> None:
    made = MADE[number]
    expected = repr(made(X))
    for _ in range(2):
        other = again(made)
        assert other is not made
        assert (other.__name__, other.__module__) == ("loss", __name__)
        assert [repr(other(X)) for _ in range(3)] == [expected] * 3
        made = other


def test_hvp() -> None:
    other = pickle.loads(pickle.dumps(tg.hvp(loss)))
    np.testing.assert_array_equal(other(X, X), 6 * X * X)


@pytest.mark.parametrize("made", [decorated, with_gradient, curvature, Model.loss])
def test_a_decorated_function_is_found_by_its_name(made: Any) -> None:
    made(X)
    assert pickle.loads(pickle.dumps(made)) is made
    assert copy.deepcopy(made) is made


def test_a_local_function_is_pickled_as_little_as_ever() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(tg.compile(lambda x: x))
