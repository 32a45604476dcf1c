"""JAX compiled by jit: the same source with `jax.numpy`, or one with its loop as a scan, in the module
`<module>_scan` beside it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.peers.autograd import rebound
from bench.peers.peer import Gradient, Peer, beside
from bench.problems.problem import Data, Problem


def of(problem: Problem, objective: Callable[..., Any], given: Data) -> Gradient:
    """Compile once, in float64, and make JAX's arrays once; a call waits until the gradient is there.

    Arrays are arguments, so that XLA computes nothing with them beforehand; all else is fixed.
    """
    import jax
    jax.config.update("jax_enable_x64", True)
    args = tuple(jax.numpy.asarray(arg) for arg in problem.args)
    arrays = {name: jax.numpy.asarray(value) for name, value in given.items() if isinstance(value, np.ndarray)}
    fixed = {name: value for name, value in given.items() if name not in arrays}

    def applied(args: tuple[Any, ...], arrays: dict[str, Any]) -> Any:
        return objective(*args, **arrays, **fixed)
    compiled = jax.jit(jax.value_and_grad(applied))
    return Gradient(lambda: jax.block_until_ready(compiled(args, arrays)),
                    lambda result: (float(result[0]), tuple(np.asarray(dx) for dx in result[1])))


def same(problem: Problem) -> Gradient:
    """Compile the source as it is, its loops unrolled."""
    import jax
    return of(problem, *problem.program(partial(rebound, np=jax.numpy)))


def scan(problem: Problem) -> Gradient:
    """Compile the version with a scan."""
    return of(problem, importlib.import_module(beside(problem, "scan")).objective, problem.given)


def load() -> None:
    """Compile something small."""
    import jax
    jax.config.update("jax_enable_x64", True)
    jax.block_until_ready(jax.jit(jax.value_and_grad(lambda x: jax.numpy.sum(jax.numpy.sin(x) * x)))(np.ones(3)))


PEERS = (Peer("jax", same, load), Peer("jax scan", scan, load, "scan"))
