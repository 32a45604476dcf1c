"""The scalar recurrence for JAX, its loop rewritten as a scan."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def objective(x: Any, r: float, iterations: int) -> Any:
    """Compute what `recurrence.objective` does."""
    def step(at: Any, _: None) -> tuple[Any, None]:
        return at * x - jnp.sin(at), None
    return jax.lax.scan(step, jnp.asarray(r), None, length=iterations)[0]
