"""autograd_functions: a NumPy program as a primitive of HIPS autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.bridges.sweeps import Sweeps, inexact
from tapegrad.numbers.lazy import needed


def to_autograd(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy program as a function that `autograd.grad` and its kin differentiate in reverse mode, to any
    order; integer arguments are constant.

    The program runs by compiled tapes; the backward pass recomputes it.

    >>> import numpy as np, autograd
    >>> wave = to_autograd(lambda x, w: np.sin(w * x).sum())
    >>> autograd.grad(wave)(np.zeros(2), 3.0)
    array([3., 3.])
    """
    flat = _flat(Sweeps(f))

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        made: list[Any] = []
        found = flat(*args, into=made)
        nest, leaves = made
        for k, i in enumerate(inexact(leaves)):
            leaves[i] = found[k]
        return nest.build(leaves)
    return call


@functools.cache
def _flat(sweeps: Sweeps) -> Callable[..., Any]:
    """Return a program as a primitive from arguments to the tuple of its result's leaves that have cotangents; it
    appends the nesting and all leaves to the list `into`.
    """
    extend = needed("autograd.extend")
    returned: list[int] = []  # of the last call: autograd makes the pullback right after it

    @extend.primitive  # type: ignore[untyped-decorator]
    def flat(*args: Any, into: list[Any] | None = None) -> tuple[Any, ...]:
        nest, leaves = sweeps(*args)
        if into is not None:
            into += [nest, leaves]
        returned[:] = inexact(leaves)
        return tuple([leaves[i] for i in returned])

    def pulled(argnums: Sequence[int], ys: Any, args: tuple[Any, ...], _: Any) -> Callable[[Any], Any]:
        sweep = _flat(sweeps.pulled(len(args), argnums, tuple(returned)))

        def pullback(dys: Any) -> Any:
            found = sweep(*args, *[dys[k] for k in range(len(ys))])
            return [found[k] for k in range(len(argnums))]
        return pullback
    extend.defvjp_argnums(flat, pulled)
    return flat  # type: ignore[no-any-return]
