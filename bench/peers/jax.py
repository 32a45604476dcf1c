"""JAX: the same source with `jax.numpy`, compiled by jit."""

from __future__ import annotations

import numpy as np

from bench.peers.autograd import rebound
from bench.peers.peer import Gradient, Peer
from bench.problems.problem import Problem


def prepare(problem: Problem) -> Gradient:
    """Compile once, in float64."""
    import jax
    jax.config.update("jax_enable_x64", True)
    objective = rebound(problem.objective, jax.numpy)
    compiled = jax.jit(jax.value_and_grad(lambda *args: objective(*args, **problem.given), tuple(range(len(problem.args)))))

    def gradient() -> tuple[object, tuple[object, ...]]:
        value, dargs = compiled(*problem.args)
        return float(value), tuple(np.asarray(dx) for dx in dargs)
    return gradient


PEERS = (Peer("jax", prepare),)
