"""The Runge-Kutta integration for JAX, its loop rewritten as a scan."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from bench.problems.rk4 import step


def objective(x: Any, y: Any, z: Any, sigma: Any, rho: Any, beta: Any, dt: float, steps: int) -> Any:
    """Compute what `rk4.objective` does."""
    def scanned(state: Any, _: None) -> tuple[Any, None]:
        u, v, w = state
        return step(u, v, w, sigma, rho, beta, dt), None
    start: Any = tuple(jnp.asarray(value, jnp.float64) for value in (x, y, z))
    x, y, z = jax.lax.scan(scanned, start, None, length=steps)[0]
    return x * x + y * y + z * z
