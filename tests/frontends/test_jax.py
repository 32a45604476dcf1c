"""Functions of JAX's on a tape, where a program calls them and by tg.from_jax, against JAX itself."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

jax = pytest.importorskip("jax")
jnp = jax.numpy
X, V = np.array([0.2, 1.2, 0.7]), np.array([1.0, -2.0, 0.5])


@contextlib.contextmanager
def precision(double: bool) -> Iterator[None]:
    try:
        context = jax.enable_x64(double)
    except AttributeError:  # before JAX 0.8
        context = jax.experimental.enable_x64(double)
    with context:
        yield


@pytest.fixture
def in_double_precision() -> Iterator[None]:
    with precision(True):
        yield


@pytest.fixture(params=[True, False], ids=["double", "single"])
def rtol(request: pytest.FixtureRequest) -> Iterator[float]:
    """In both precisions of JAX: to how many digits numbers are equal then."""
    with precision(request.param):
        yield 1e-12 if request.param else 1e-5


def close(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol, rtol)


CASES = [lambda x, w: jnp.sin(x * w) * x, jax.jit(lambda x, w: jnp.cumsum(x) ** w), lambda x, w: (x * w, jnp.exp(x).sum()),
         lambda x, w: jnp.linalg.norm(x) * w]


@pytest.mark.usefixtures("in_double_precision")
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


def test_results_that_are_not_used_and_integers() -> None:
    op = tg.from_jax(lambda x, n: {"b": x * n, "a": (jnp.sin(x), jnp.argsort(x))})
    with precision(True):
        for n in (2, np.array([2, 3, 4])):
            close(tg.value_and_grad(lambda x, n: np.sum(op(x, n)["b"]))(X, n), (np.sum(X * n), n + 0 * X))
            close(tg.gradient(lambda x, n: np.sum(op(x, n)["b"]), X, n)[1], 0.0 * np.asarray(n))  # none, as in JAX
            close(tg.gradient(lambda x, n=n: np.sum(op(x, n)["a"][0]), X), np.cos(X))
            close(tg.jvp(lambda x, n=n: op(x, n)["b"], (X,), (V,))[1], V * n)


# -- what a program calls


@jax.jit
def wave(x: Any, w: Any) -> Any:
    return jnp.sin(x * w) * x


@jax.jit
def layer(params: Any, x: Any, *, slope: Any = 0.5) -> Any:
    return jnp.where(x * params["w"] > 0, x * params["w"], slope * x) + params["b"][0]


@jax.custom_jvp
def softplus(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


softplus.defjvp(lambda xs, ts: (softplus(*xs), ts[0] * jax.nn.sigmoid(xs[0])))
def carried(c: Any, a: Any) -> Any:
    return c + a * a, c * a


cubed = jax.vmap(jax.grad(lambda x: x ** 3 / 3))
class Model:
    def __init__(self) -> None:
        self.activation = jnp.tanh

    @functools.partial(jax.jit, static_argnums=0)
    def jitted(self, x: Any, w: Any) -> Any:
        return self.activation(x * w)

    @staticmethod
    @jax.jit
    def doubled(x: Any) -> Any:
        return 2 * x

    def __call__(self, x: Any, w: Any) -> Any:
        return self.activation(self.doubled(self.jitted(x, w)))


MODEL = Model()
total, TABLE = jnp.sum, {"square": jnp.square}

# each called with NumPy, and with jax.numpy in its place
PROGRAMS = {
    "jitted": lambda xp, x, w: xp.sum(wave(x, w) ** 2),
    "a nest, a keyword": lambda xp, x, w: xp.sum(layer({"w": w, "b": [x[1], 2.0]}, x, slope=w) ** 2),
    "custom_jvp": lambda xp, x, w: xp.sum(softplus(x) * w ** 2) + xp.prod(jax.nn.relu(x - 0.5) + w),
    "transformed": lambda xp, x, w: xp.sum(cubed(x) * w ** 3),
    "by other names": lambda xp, x, w: total(TABLE["square"](x) * w, axis=0) ** 2,
    "methods, attributes": lambda xp, x, w: xp.sum(MODEL(x, w) ** 2),
    "ufunc": lambda xp, x, w: xp.sum(jnp.add(x, w) ** 3) + jnp.multiply(w, 2.0) ** 2,
    "in modules of JAX": lambda xp, x, w: jax.nn.softmax(x * w, axis=-1)[1] + jnp.linalg.norm(x * w) ** 3 + xp.sum(jax.scipy.special.erf(x * w)),
    "scan": lambda xp, x, w: xp.sum(jax.lax.scan(carried, 0.5 * w, x)[1]),
    "transformed there": lambda xp, x, w: xp.sum(jax.vmap(jnp.sin)(x) * w ** 2) + xp.sum(jax.grad(lambda x: jnp.sum(x ** 4))(x)),
    "a list, an integer": lambda xp, x, w: xp.sum(jnp.stack([x * x, w * x], 1)[:, 1] * jnp.reshape(jnp.array([x[2], w, x[0]]), 3)),
    "integers as results": lambda xp, x, w: jax.lax.top_k(x * w, 2)[0][1] * x[jnp.argmax(x)] * w,
    "facts": lambda xp, x, w: xp.sum(x * w) ** 2 * jnp.shape(x)[0] * jnp.ndim(x) * jnp.size(x),
    "of constants": lambda xp, x, w: xp.sum(jnp.ones(3) * x * w) * w + xp.sum(w / jnp.arange(1, 4)) + xp.sum((jnp.arange(3.0) @ x) ** 2 + 2.0 * w),
    "random": lambda xp, x, w: xp.sum(x * w * jax.random.normal(jax.random.key(0), (3,))) ** 2}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_calls_in_each_mode(program: Any, rtol: float) -> None:
    def mine(x: Any, w: Any) -> Any:
        return program(np, x, w)

    def theirs(x: Any, w: Any) -> Any:
        return program(jnp, x, w)
    w = 1.3
    value, gradients = tg.value_and_grad(mine, (0, 1))(X, w)
    close((value, gradients), jax.value_and_grad(theirs, (0, 1))(X, w), rtol)
    assert gradients[0].dtype == np.float64 and type(gradients[1]) is float
    close(tg.jvp(mine, (X, w), (V, 0.5)), jax.jvp(theirs, (jnp.asarray(X), w), (jnp.asarray(V), 0.5)), rtol)
    if jax.config.jax_enable_x64:  # the same code, which takes JAX seconds to compile
        batch = np.stack([X, 2 * X])
        close(tg.hessian(mine)(X, w), jax.hessian(theirs)(X, w), 10 * rtol)
        close(tg.vmap(mine, in_axes=(0, None))(batch, w), jax.vmap(theirs, (0, None))(batch, w), rtol)
    step, anew = tg.value_and_grad(mine, (0, 1)), program is PROGRAMS["transformed there"]  # by functions that each call makes
    with pytest.warns(tg.RetraceWarning) if anew else contextlib.nullcontext():
        for k in range(4):
            close(step(X + k, w), jax.value_and_grad(theirs, (0, 1))(X + k, w), 10 * rtol)
    assert (step.stats.hits > 0) is not anew, step.explain()


def test_a_call_is_one_operation_in_the_precision_of_jax() -> None:
    def f(x: Any) -> Any:
        return np.sum(wave(x, 2.0))
    for double in (False, True):
        with precision(double):
            value, tape = tg.trace(f, X)
            assert [op.fn.__name__ for op in tape if op.kind == "call"] == ["wave", "sum"]
            assert value.dtype == (np.float64 if double else np.float32) == np.asarray(wave(X, 2.0)).dtype
            close(tape.play(2 * X), f(2 * X))


def test_a_jitted_function_that_is_traced_itself() -> None:
    f = jax.jit(lambda x: jnp.sum(x ** 3))
    with precision(True):
        close(tg.value_and_grad(f)(X), (np.sum(X ** 3), 3 * X ** 2))


def test_integers_that_are_arguments_are_parts_of_an_operation() -> None:
    step = tg.value_and_grad(lambda x, axis: np.sum(jnp.sum(x, axis) ** 2))
    with precision(True):
        for axis in (0, 1, 0, 1, 0, 1, -1):
            close(step(np.stack([X, V]), axis)[1], 2 * np.sum(np.stack([X, V]), axis, keepdims=True) + 0 * np.stack([X, V]))
    assert tg.gradient(lambda x, n: np.sum(jnp.sin(x) * jnp.sin(n)), X, 2)[1] is None
    with pytest.raises(tg.ArgumentError, match="n is used as a plain number"):
        tg.jvp(lambda n: jnp.sin(n) * 1.0, (2,), (1.0,))


def test_compiled_calls_when_the_precision_changes() -> None:
    def f(x: Any) -> Any:
        return np.sum(jnp.tanh(x) ** 2) * jnp.ones(())
    step = tg.value_and_grad(f)
    for double in (False, False, False, True, True, True, False, True):
        with precision(double):
            (value, dx), fresh = step(X), tg.value_and_grad(f)(X)
            assert value == fresh[0] and value.dtype == fresh[0].dtype and np.array_equal(dx, fresh[1])
    assert step.stats.hits


SCALE = 1.0


def scaled(x: Any) -> Any:
    return x * SCALE


mapped = jax.vmap(scaled)


def test_functions_of_the_programs_that_jax_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    step = tg.value_and_grad(lambda x: np.sum(mapped(x)) + np.sum(x * float(mapped(X).sum())))
    with precision(True):
        for k in range(8):
            monkeypatch.setitem(globals(), "SCALE", 1.0 + k // 4)
            close(step(X)[1], SCALE * (1 + X.sum()) + 0 * X)


def test_other_names_and_threads_are_left_alone() -> None:
    before = (jnp.sin, jax.jit, jax.nn.relu, type(jnp))
    tg.grad(lambda x: np.sum(jnp.sin(x)), X)
    assert (jnp.sin, jax.jit, jax.nn.relu, type(jnp)) == before and jnp.sin is before[0]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tg.UnknownFunction, match=r"a traced value that is not one of its arguments(?s:.*)the value as an argument"):
        tg.grad(lambda w: np.sum(jax.vmap(lambda x: x * w)(X)), 2.0)
    with pytest.raises(tg.UnknownFunction, match=r"this call of take cannot be recorded(?s:.*)tg.from_jax"):
        tg.grad(lambda x: np.sum(jnp.take(x, 0, mode={1})), X)
    torch = pytest.importorskip("torch")
    with pytest.raises(tg.UnknownFunction, match=r"sin of a tensor cannot be recorded"):
        tg.grad(lambda x: jnp.sin(x).sum(), torch.ones(3))
    with pytest.raises(tg.TapeFormatError, match="wave"):
        tg.trace(lambda x: np.sum(wave(x, 2.0)), X)[1].save(tmp_path / "tape")
