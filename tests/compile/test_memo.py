"""Transforms made anew: of the same function they are what was made before, and of others never."""

from __future__ import annotations

import functools
import gc
import timeit
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.memo import MOST, kept
from tests.harness.compare import same

X = np.linspace(0.5, 1.5, 4)
SCALE = 1.0


def loss(x: Any) -> Any:
    return (x**3).sum() * SCALE


def rows(x: Any) -> Any:
    return x**3 * SCALE


TRANSFORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "value_and_grad": (tg.value_and_grad, loss, (X,)), "compile": (tg.compile, loss, (X,)), "hessian": (tg.hessian, loss, (X,)),
    "hvp": (tg.hvp, loss, (X, X)), "jacobian": (tg.jacobian, rows, (X,)), "value_and_jacobian": (tg.value_and_jacobian, rows, (X,)),
    "jacfwd": (tg.jacfwd, rows, (X,)), "sparse_jacobian": (tg.sparse_jacobian, rows, (X,)), "sparse_hessian": (tg.sparse_hessian, loss, (X,)),
    "gauss_newton_product": (tg.gauss_newton_product, rows, (X, X)), "wirtinger": (tg.wirtinger, rows, (X + 0j,)),
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Have no full collection meanwhile, which lets go of what was not asked for again."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.quick
@pytest.mark.parametrize("name", TRANSFORMS)
def test_made_anew_it_is_as_fast_as_kept(name: str, uncollected: None) -> None:
    """The same function is returned; to find it takes some 2 µs, and a compiled call 6 µs and more."""
    transform, f, args = TRANSFORMS[name]
    made, of_lambda = transform(f), []
    for _ in range(8):
        assert transform(f) is made
        same(transform(f)(*args), made(*args))
        of_lambda.append(transform(lambda x: f(x)))
        same(of_lambda[-1](*args), made(*args))
    assert len({*map(id, of_lambda)}) == 1
    assert min(timeit.repeat(lambda: transform(f), number=5, repeat=50)) / 5 < 5e-5


def test_what_a_function_reads_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    for scale in (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0):
        monkeypatch.setattr(f"{__name__}.SCALE", scale)
        np.testing.assert_allclose(tg.hessian(loss)(X), np.diag(6 * X * scale))
        np.testing.assert_allclose(tg.value_and_grad(loss)(X)[1], 3 * X**2 * scale)


def powers(n: float, a: Any) -> Callable[[Any], Any]:
    return lambda x: (a * x**n).sum()


def test_functions_with_other_captured_variables_are_others() -> None:
    """They have one code, and the memory of one that is gone is used again for the next."""
    for k in range(40):
        n, a = float(k % 5), np.full(4, 1.0 + k % 3)
        np.testing.assert_allclose(tg.value_and_grad(powers(n, a))(X)[1], n * a * X ** (n - 1))
        np.testing.assert_allclose(tg.hessian(lambda x, a=a, n=n: (a * x**n).sum())(X), np.diag(n * (n - 1) * a * X ** (n - 2)), atol=1e-12)
        np.testing.assert_allclose(tg.jacobian(functools.partial(np.multiply, a))(X), np.diag(a))


def test_one_captured_variable_that_is_bound_anew() -> None:
    for k in range(12):
        a = np.full(4, float(k))
        np.testing.assert_allclose(tg.value_and_grad(lambda x: (a * x).sum())(X)[1], a)  # noqa: B023
    first = tg.value_and_grad(lambda x: (a * x).sum())
    assert tg.value_and_grad(lambda x: (a * x).sum()) is not first  # at another place


class Model:
    def __init__(self, w: float) -> None:
        self.w = w

    def loss(self, x: Any) -> Any:
        return (self.w * x * x).sum()


def test_methods() -> None:
    one, other = Model(1.0), Model(2.0)
    assert tg.hessian(one.loss) is tg.hessian(one.loss) is not tg.hessian(other.loss)
    for k in range(8):
        one.w = float(k // 4)
        for model in (one, other):
            np.testing.assert_allclose(tg.hessian(model.loss)(X), 2 * model.w * np.eye(4))


def test_options_tell_apart() -> None:
    assert tg.value_and_grad(loss, seed=1) is not tg.value_and_grad(loss, seed=1.0)
    assert tg.value_and_grad(loss, argnums=0) is not tg.value_and_grad(loss, argnums=(0,))
    assert tg.value_and_grad(loss, argnums=[0])(X)[1][0].tolist() == tg.value_and_grad(loss)(X)[1].tolist()  # not hashable
    assert tg.value_and_grad(rows, seed=X) is not tg.value_and_grad(rows, seed=X)
    assert tg.jacobian(rows) is not tg.jacobian(rows, mode="forward") and tg.jacobian(rows) is tg.jacobian(rows)


def test_defaults_that_are_replaced() -> None:
    def f(x: Any, n: float = 2.0) -> Any:
        return (x**n).sum()
    for n in (2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 2.0):
        f.__defaults__ = (n,)
        np.testing.assert_allclose(tg.value_and_grad(f)(X)[1], n * X ** (n - 1))


def test_tapes_may_be_edited() -> None:
    tape = tg.trace(loss, X)[1]
    assert tg.compile(tape) is not tg.compile(tape)


def test_nothing_is_kept_for_long() -> None:
    class Held(np.ndarray):
        pass
    gone = []
    for k in range(3):
        a = np.full(4, float(k)).view(Held)
        gone.append(weakref.ref(a))
        tg.value_and_grad(powers(2.0, np.asarray(a)))(X)
    assert len(kept) == 1  # each captured another array, so none of them comes again
    del a
    gc.collect()
    assert not kept and [ref() for ref in gone] == [None] * 3
    for k in range(2 * MOST):
        exec(f"def f(x): return (x * {k}).sum()", space := {"__name__": __name__})
        tg.value_and_grad(space["f"])
    assert len(kept) <= MOST
    for _ in range(2):
        tg.hessian(loss)
        gc.collect()
    assert [key[0].__name__ for key in kept] == []
    for _ in range(3):
        assert tg.hessian(loss) is tg.hessian(loss)
        gc.collect()
        assert len(kept) == 1  # asked for again


def test_within_a_trace_it_is_made_of_what_is_traced() -> None:
    def f(y: Any) -> Any:
        return tg.hessian(lambda x: (x**3 * y).sum())(X).sum()
    for k in range(6):
        value, (_, dy) = tg.grad(f, float(k))
        assert (value, dy) == pytest.approx((6 * X.sum() * k, 6 * X.sum()))
    assert not kept
