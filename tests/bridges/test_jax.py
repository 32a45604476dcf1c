"""A NumPy program in JAX, and a function of JAX's on a tape, against JAX itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.frontends.jax import doubles

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


def test_an_array_of_jax_is_no_argument_to_differentiate_by() -> None:
    x = jnp.asarray(X)
    for call in (lambda: tg.grad(lambda x: np.sum(np.asarray(x)), x), lambda: tg.grad(lambda d, y: d["x"][0] * y, {"x": x}, 2.0),
                 lambda: tg.jvp(lambda x: np.asarray(x) * 2, (x,), (x,)), lambda: tg.value_and_grad(jnp.sum)(x)):
        with pytest.raises(tg.ArgumentError, match=r"an array of jaxlib that contains numbers(.|\n)*np.asarray"):
            call()
    assert tg.grad(lambda x, y: jnp.sum(x) * y, x, 2.0, argnums=1)[1] == tg.grad(lambda y, x: jnp.sum(x) * y, 2.0, x=x)[1][1] == X.sum()
