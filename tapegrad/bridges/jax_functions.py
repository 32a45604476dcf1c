"""jax_functions: a NumPy program as a function that JAX differentiates, and a function of JAX's as one operation of a
tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.bridges.sweeps import Sweeps, inexact
from tapegrad.numbers.cotangents import ZERO, conform
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import jax, needed
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.batching import Members
from tapegrad.rules.op import Op
from tapegrad.rules.user import frule, primitive, rrule
from tapegrad.tree.flatten import flatten, leaves_of

# -- a program for JAX


def to_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy program as a function of JAX's arrays that `jax.grad`, `jax.jit` and `jax.vmap` take: by
    `jax.pure_callback`, with a `jax.custom_vjp`, whose derivative is such a function again.

    Of which shapes and dtypes the result is, a run on ones says; values must not decide that. JAX computes in single
    precision where `jax_enable_x64` is not set. The backward pass computes the program again.

    >>> import numpy as np, jax
    >>> wave = to_jax(lambda x, w: np.sin(w * x).sum())
    >>> jax.jit(jax.grad(wave))(np.zeros(2, np.float32), 3.0)
    Array([3., 3.], dtype=float32)
    """
    return _to_jax(Sweeps(f))


def dtype_of(x: Any) -> Any:
    """Return the dtype that JAX gives an array or a number of NumPy's."""
    return jax.dtypes.canonicalize_dtype(np.result_type(x))


@functools.cache
def _to_jax(sweeps: Sweeps) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def shapes(args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """Return how the result is nested, and the shapes and dtypes of its leaves: of a run on ones."""
        key = tuple([(np.shape(x), np.dtype(x.dtype)) for x in args])
        if key not in known:
            into, leaves = sweeps(*[np.ones(shape, dtype) for shape, dtype in key])
            known[key] = into, [jax.ShapeDtypeStruct(np.shape(leaf), dtype_of(leaf)) for leaf in leaves]
        return known[key]  # type: ignore[no-any-return]

    def host(*args: Any) -> tuple[Any, ...]:
        leaves = sweeps(*map(np.asarray, args))[1]
        return tuple([np.asarray(leaf, dtype_of(leaf)) for leaf in leaves])

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def flat(*args: Any) -> Any:
        return jax.pure_callback(host, tuple(shapes(args)[1]), *args, vmap_method="sequential")

    def forward(*args: Any) -> tuple[Any, Any]:
        return flat(*args), args

    def backward(args: Any, dys: Any) -> tuple[Any, ...]:
        wrt, returned = inexact(args), inexact(shapes(args)[1])
        pulled = _to_jax(sweeps.pulled(len(args), wrt, returned))
        found = dict(zip(wrt, pulled(*args, *[dys[i] for i in returned])))
        return tuple([found.get(i, np.zeros(np.shape(x), jax.dtypes.float0)) for i, x in enumerate(args)])
    flat.defvjp(forward, backward)

    @functools.wraps(sweeps.f)
    def call(*args: Any) -> Any:
        args = tuple(map(jax.numpy.asarray, args))
        return shapes(args)[0].build(list(flat(*args)))
    return call


# -- a function of JAX's on a tape


def doubles() -> Any:
    """Return a context in which JAX computes in double precision, as NumPy does."""
    try:
        return jax.enable_x64(True)
    except AttributeError:  # before JAX 0.8
        return needed("jax.experimental").enable_x64()


def from_jax(fn: Callable[..., Any]) -> Op:
    """Return a function of JAX's, jitted or not, as one operation: `jax.vjp` is its pullback, `jax.jvp` its tangent and
    `jax.vmap` its batch.

    It takes arrays and numbers, and returns an array or a tuple of arrays, of NumPy's, in double precision.

    >>> import numpy as np, jax.numpy as jnp, tapegrad as tg
    >>> wave = from_jax(lambda x: jnp.sin(3.0 * x))
    >>> tg.gradient(lambda x: np.sum(wave(x)), np.zeros(2))
    (array([3., 3.]),)
    """
    return _from_jax(fn)


@functools.cache
def _from_jax(fn: Callable[..., Any]) -> Op:
    compiled = jax.jit(fn)

    def run(*args: Any) -> Any:
        with doubles():
            return jax.tree.map(np.asarray, compiled(*args))
    run.__name__ = getattr(fn, "__name__", "function of JAX")
    op = primitive(run)

    @rrule(op)
    def _(*args: Any) -> Any:
        y = op(*args)
        leaves: list[Any] = []
        into = flatten(y, "", leaves, [], shared=False)
        wrt = tuple([i for i, x in enumerate(args) if has_gradient(plain(x))])

        def pullback(dy: Any) -> tuple[Any, ...]:
            dys = leaves_of(dy) if not into.is_leaf else [dy]
            dys = [conform(0.0 if part is ZERO else part, leaf) for part, leaf in zip(dys, leaves)]
            found = dict(zip(wrt, _pulled(fn, len(args), wrt)(*args, *dys)))
            return tuple([found.get(i, ZERO) for i in range(len(args))])
        return y, pullback

    @frule(op)
    def _(*args: Any) -> Any:
        def push(*ts: Any) -> Any:
            moving = tuple([i for i, t in enumerate(ts) if t is not None])
            return _pushed(fn, len(args), moving)(*args, *[ts[i] for i in moving])
        return op(*args), push

    def batch(members: Members, *args: Any) -> Any:
        return from_jax(_mapped(fn, tuple([0 if flag else None for flag in members.batched])))(*args)
    op.batch = batch
    return op


@functools.cache
def _mapped(fn: Callable[..., Any], in_axes: tuple[int | None, ...]) -> Any:
    return jax.vmap(fn, in_axes)


@functools.cache
def _pulled(fn: Callable[..., Any], count: int, wrt: tuple[int, ...]) -> Op:
    """Return the op from the arguments and the cotangents of each leaf of the value to the cotangents of some."""
    def pulled(*given: Any) -> tuple[Any, ...]:
        y, pull = jax.vjp(fn, *given[:count])
        dxs = pull(jax.tree.unflatten(jax.tree.structure(y), given[count:]))
        return tuple([dxs[i] for i in wrt])
    pulled.__name__ = f"{getattr(fn, '__name__', 'function')}_pullback"
    return from_jax(pulled)


@functools.cache
def _pushed(fn: Callable[..., Any], count: int, moving: tuple[int, ...]) -> Op:
    """Return the op from the arguments and the tangents of some to that of the value."""
    def pushed(*given: Any) -> Any:
        args, ts = list(given[:count]), given[count:]

        def moved(*some: Any) -> Any:
            return fn(*[dict(zip(moving, some)).get(i, x) for i, x in enumerate(args)])
        return jax.jvp(moved, tuple([args[i] for i in moving]), tuple(ts))[1]
    pushed.__name__ = f"{getattr(fn, '__name__', 'function')}_pushforward"
    return from_jax(pushed)
