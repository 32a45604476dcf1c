"""A NumPy program in JAX, and a function of JAX's on a tape, against JAX itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.bridges.jax_functions import doubles

jax = pytest.importorskip("jax")
jnp = jax.numpy
X = np.array([0.2, 1.2, -0.7])


@pytest.fixture(autouse=True)
def in_double_precision() -> Iterator[None]:
    with doubles():
        yield


def program(x: Any, w: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = np.sin(x[i] * w)
    return {"waves": out, "count": 3, "sum": (out ** 2).sum()}


def of_jax(x: Any, w: Any) -> Any:
    return jnp.sin(x * w), (jnp.sin(x * w) ** 2).sum()


def close(found: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_values_gradients_and_transforms_of_a_program() -> None:
    f = tg.to_jax(program)
    value = f(X, 0.7)
    close((value["waves"], value["sum"]), of_jax(X, 0.7))
    assert int(value["count"]) == 3

    def loss(f: Any, x: Any, w: Any) -> Any:
        found = f(x, w)
        waves, total = (found["waves"], found["sum"]) if isinstance(found, dict) else found
        return total + (waves * jnp.arange(3.0)).sum()
    for change in (lambda loss: loss, lambda loss: jax.grad(loss, (0, 1)), lambda loss: jax.jit(jax.grad(loss, (0, 1))),
                   lambda loss: jax.jacrev(jax.grad(loss)), lambda loss: jax.grad(lambda x, w: (jax.grad(loss)(x, w) ** 2).sum(), 1)):
        close(change(lambda x, w: loss(f, x, w))(X, 0.7), change(lambda x, w: loss(of_jax, x, w))(X, 0.7))
    batch = jnp.stack([X, 2 * X])
    close(jax.vmap(lambda x: loss(f, x, 0.7))(batch), jax.vmap(lambda x: loss(of_jax, x, 0.7))(batch))
    close(jax.vmap(jax.grad(lambda x: loss(f, x, 0.7)))(batch), jax.vmap(jax.grad(lambda x: loss(of_jax, x, 0.7)))(batch))


def test_integers_have_no_gradient() -> None:
    f = tg.to_jax(lambda x, n: x * n)
    assert float(jax.grad(f)(2.0, 3)) == 3.0
    assert jax.grad(f, (0, 1), allow_int=True)(2.0, 3)[1].dtype == jax.dtypes.float0


def test_single_precision_stays() -> None:
    with contextlib.ExitStack() as stack:
        if hasattr(jax, "enable_x64"):
            stack.enter_context(jax.enable_x64(False))
        assert jax.grad(tg.to_jax(lambda x: (x ** 2).sum()))(jnp.ones(3, np.float32)).dtype == np.float32


def test_a_program_that_raises() -> None:
    with pytest.raises(Exception, match="no such thing"):
        tg.to_jax(lambda x: (_ for _ in ()).throw(ValueError("no such thing")))(X)


CASES = [lambda x, w: jnp.sin(x * w) * x, jax.jit(lambda x, w: jnp.cumsum(x) ** w), lambda x, w: (x * w, jnp.exp(x).sum()),
         lambda x, w: jnp.linalg.norm(x) * w]


@pytest.mark.parametrize("fn", CASES)
def test_a_function_of_jax_on_a_tape(fn: Any) -> None:
    op, x, w = tg.from_jax(fn), np.abs(X), 1.3

    def mine(x: Any, w: Any) -> Any:
        y = op(x, w)
        return sum((np.sum(part ** 2) for part in y), 0.0) if isinstance(y, tuple) else np.sum(y ** 2)

    def theirs(x: Any, w: Any) -> Any:
        y = fn(x, w)
        return sum((jnp.sum(part ** 2) for part in y), 0.0) if isinstance(y, tuple) else jnp.sum(y ** 2)
    close(tg.gradient(mine, x, w), jax.grad(theirs, (0, 1))(x, w))
    v = np.array([1.0, -2.0, 0.5])
    close(tg.jvp(mine, (x, w), (v, 0.5)), jax.jvp(theirs, (x, w), (v, 0.5)))
    close(tg.hessian(mine)(x, w), jax.hessian(theirs)(x, w))
    close(tg.vmap(mine, in_axes=(0, None))(np.stack([x, 2 * x]), w), jax.vmap(theirs, (0, None))(np.stack([x, 2 * x]), w))
    step = tg.value_and_grad(mine, (0, 1))
    for k in range(4):
        close(step(x + k, w), jax.value_and_grad(theirs, (0, 1))(x + k, w))
    assert step.stats.hits >= 1


def test_it_is_one_operation_named_as_the_function() -> None:
    def wave(x: Any) -> Any:
        return jnp.sin(x) * 2
    tape = tg.trace(lambda x: np.sum(tg.from_jax(wave)(x)), X)[1]
    assert [op.fn.__name__ for op in tape if op.kind == "call"] == ["wave", "sum"]
