"""The LSTM for JAX, its loop over time rewritten as a scan."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def objective(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Compute what `lstm.objective` does."""
    layers = len(main) // 2

    def step(carried: tuple[list[Any], list[Any]], x: Any) -> tuple[tuple[list[Any], list[Any]], Any]:
        hidden, cell = list(carried[0]), list(carried[1])
        for i in range(layers):
            hidden[i], cell[i] = lstm(main[2 * i], main[2 * i + 1], hidden[i], cell[i], x)
            x = hidden[i]
        return (hidden, cell), x
    start = [jnp.asarray(state[2 * i]) for i in range(layers)], [jnp.asarray(state[2 * i + 1]) for i in range(layers)]
    _, outputs = jax.lax.scan(step, start, sequence[:-1] * extra[0])
    predicted = outputs * extra[1] + extra[2]
    normalised = predicted - jnp.log(2.0 + jnp.sum(jnp.exp(predicted), axis=1, keepdims=True))
    return -jnp.mean(sequence[1:] * normalised)


def lstm(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """Return the next hidden state and cell of one layer."""
    gates = jnp.concatenate((x, hidden, x, hidden)) * weight + bias
    forget, take, give, change = jnp.split(gates, 4)
    cell = cell * jax.nn.sigmoid(forget) + jax.nn.sigmoid(take) * jnp.tanh(change)
    return jax.nn.sigmoid(give) * jnp.tanh(cell), cell
