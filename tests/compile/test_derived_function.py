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
    tg.value_and_grad(loss, argnums=None),
    tg.value_and_grad(loss, argnums=0, warmup=1),
    tg.value_and_grad(loss, argnums=None, seed=2.0),
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


class Layer:
    def __init__(self, k: float) -> None:
        self.k = k

    def loss(self, w: Any) -> Any:
        return (self.k * w**3).sum()

    def rows(self, w: Any) -> Any:
        return self.k * w**3

    compiled, step, nested = tg.compile(loss), tg.value_and_grad(loss, argnums=None), tg.value_and_grad(tg.compile(loss), argnums=1)
    jacobian, sparse = tg.jacobian(rows, argnums=1), tg.sparse_jacobian(rows, argnums=1)
    hessian, hvp = tg.hessian(loss, argnums=1), tg.hvp(loss, argnums=1)
    wirtinger, batched = tg.wirtinger(rows, argnums=1), tg.vmap(rows, in_axes=(None, 0))
    checkpoint, forward = tg.checkpoint(loss), tg.forwarddiff(loss)
    activation, apart = tg.compile(np.tanh), tg.compile(staticmethod(loss))

    @tg.compile
    def decorated(self, w: Any) -> Any:
        return (self.k * w**3).sum()


METHODS = ("compiled", "step", "nested", "jacobian", "sparse", "hessian", "hvp", "wirtinger", "batched", "checkpoint",
           "forward", "decorated")


@pytest.mark.parametrize("name", METHODS)
def test_what_is_made_of_a_method_is_one(name: str) -> None:
    layer, made = Layer(2.0), vars(Layer)[name]
    for k in (1.0, 2.0, 3.0, 4.0):
        given = (k * X + 0j,) if name == "wirtinger" else (k * X, X) if name == "hvp" else (k * X,)
        assert repr(getattr(layer, name)(*given)).partition(" at 0x")[0] == repr(made(layer, *given)).partition(" at 0x")[0]
    assert Layer.decorated is vars(Layer)["decorated"]


def test_a_method_has_the_gradient_of_its_object() -> None:
    layer = Layer(2.0)
    value, (df, dself, dw) = layer.step(X)
    assert (value, df, dself.k) == (18.0, None, 9.0)
    np.testing.assert_array_equal(dw, 6 * X * X)
    assert tg.grad(layer.compiled, X)[1][0].k == 9.0
    assert tg.gradient(lambda k: Layer(k).nested(X)[1].sum(), 2.0) == (15.0,)
    np.testing.assert_array_equal(layer.activation(X), np.tanh(X))  # a ufunc is no method
    assert layer.apart(layer, X) == 18.0


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
