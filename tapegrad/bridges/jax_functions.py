"""jax_functions: a NumPy program as a function that JAX differentiates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.bridges.sweeps import Sweeps, inexact
from tapegrad.numbers.lazy import jax


def to_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy program as a function of JAX arrays for `jax.grad`, `jax.jit` and `jax.vmap`: a
    `jax.pure_callback` with a `jax.custom_vjp`, whose derivative is again such a function.

    A run on ones finds the shapes and dtypes of the result, so values must not decide these. JAX computes in single
    precision unless `jax_enable_x64` is set. The backward pass recomputes the program.

    >>> import numpy as np, jax
    >>> wave = to_jax(lambda x, w: np.sin(w * x).sum())
    >>> jax.jit(jax.grad(wave))(np.zeros(2, np.float32), 3.0)
    Array([3., 3.], dtype=float32)
    """
    return _to_jax(Sweeps(f))


def dtype_of(x: Any) -> Any:
    """Return the dtype that JAX gives a NumPy array or number."""
    return jax.dtypes.canonicalize_dtype(np.result_type(x))


@functools.cache
def _to_jax(sweeps: Sweeps) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def shapes(args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """Return the nesting of the result, and the shapes and dtypes of its leaves, from a run on ones."""
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
