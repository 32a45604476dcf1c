"""python -m bench.derivatives: Jacobians, Hessians, products with these and gradients per example, by tapegrad, HIPS
autograd, torch.func and, where it is installed, JAX, in turns.

The shortest times of the steady state, and as multiples of the value by plain NumPy, or of a gradient by
`tapegrad.value_and_grad`.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from time import perf_counter
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import tapegrad as tg

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(600, 26)), RNG.normal(size=600)
DATA, LABELS = RNG.normal(size=(500, 50)), np.sign(RNG.normal(size=500))
INPUTS, SHAPES = RNG.normal(size=(64, 20)), [(20, 32), (32, 32), (32, 1)]
EXAMPLES, TARGETS = RNG.normal(size=(256, 20)), RNG.normal(size=256)
SQUARE = RNG.normal(size=(100, 100)) / 10
ENDS = np.cumsum([0, *[m * n for m, n in SHAPES]])


def residuals(np: Any, a: Any, b: Any) -> Callable[[Any], Any]:
    """Return a model's 600 residuals as a function of its 26 parameters."""
    return lambda x: np.tanh(a @ x) * np.exp(-0.1 * (a @ x) ** 2) - b


def logistic(np: Any, data: Any, labels: Any) -> Callable[[Any], Any]:
    """Return the loss of a logistic regression as a function of its 50 weights."""
    return lambda w: np.log1p(np.exp(-(data @ w) * labels)).mean() + 0.01 * (w * w).sum()


def network(np: Any, inputs: Any) -> Callable[[Any], Any]:
    """Return the loss of a network with two hidden layers as a function of all of its weights."""
    def loss(w: Any) -> Any:
        h = inputs
        for shape, start, end in zip(SHAPES, ENDS, ENDS[1:]):
            h = np.tanh(h @ w[start:end].reshape(shape))
        return (h ** 2).mean()
    return loss


def mixed(np: Any, a: Any) -> Callable[[Any], Any]:
    """Return a function of 100 numbers to 100 numbers."""
    return lambda x: np.tanh(a @ np.sin(a @ x)) * x


def squared_error(np: Any) -> Callable[[Any, Any, Any], Any]:
    """Return what a network of two layers loses by one example."""
    return lambda w, x, t: (np.tanh(np.tanh(x @ w[0]) @ w[1]) @ w[2] - t) ** 2


def of_jax(x: Any, w: Any, weights: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    """Return what JAX computes, in double precision and compiled."""
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    square, hess = jax.jit(jax.jacrev(mixed(jnp, jnp.asarray(SQUARE)))), jax.jit(jax.hessian(logistic(jnp, jnp.asarray(DATA), jnp.asarray(LABELS))))
    each = jax.jit(jax.vmap(jax.grad(squared_error(jnp)), in_axes=(None, 0, 0)))
    return {"Jacobian 100 x 100": {"jax": lambda: square(x).block_until_ready()}, "Hessian 50 x 50": {"jax": lambda: hess(w).block_until_ready()},
            "gradients of 256 examples": {"jax": lambda: each(weights, EXAMPLES, TARGETS)[0].block_until_ready()}}


def tensors(*arrays: Any) -> list[Any]:
    return [torch.tensor(x) for x in arrays]


def rows() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return for each problem what each tool computes, and first of all what it is compared with."""
    x, w, n = 0.1 * RNG.normal(size=26), 0.1 * RNG.normal(size=50), 0.2 * RNG.normal(size=ENDS[-1])
    v = RNG.normal(size=n.shape)
    tx, tw, tn, tv = tensors(x, w, n, v)
    of_arrays, of_boxes, of_tensors = residuals(np, A, B), residuals(anp, A, B), residuals(torch, *tensors(A, B))
    loss, boxed_loss, tensor_loss = logistic(np, DATA, LABELS), logistic(anp, DATA, LABELS), logistic(torch, *tensors(DATA, LABELS))
    net, boxed_net, tensor_net = network(np, INPUTS), network(anp, INPUTS), network(torch, *tensors(INPUTS))
    columns, lines, second, along = tg.jacobian(of_arrays, mode="forward"), tg.jacobian(of_arrays, mode="reverse"), tg.hessian(loss), tg.hvp(net)
    gradient, boxed_along = tg.value_and_grad(net, argnums=0), autograd.hessian_vector_product(boxed_net)
    u, weights = RNG.normal(size=100), [0.2 * RNG.normal(size=shape) for shape in ((20, 32), (32, 16), (16,))]
    square, of_tensor = tg.jacobian(mixed(np, SQUARE)), mixed(torch, *tensors(SQUARE))
    error, tensor_error = squared_error(np), squared_error(torch)
    each = tg.compile(tg.vmap(tg.value_and_grad(error, 0), in_axes=(None, 0, 0)), warmup=1)
    once = tg.vmap(lambda w, x, t: tg.gradient(error, w, x, t)[0], in_axes=(None, 0, 0))
    tu, tweights, texamples, ttargets = *tensors(u), tensors(*weights), *tensors(EXAMPLES, TARGETS)
    tensor_each = torch.func.vmap(torch.func.grad(tensor_error), in_dims=(None, 0, 0))
    found: dict[str, dict[str, Callable[[], Any]]] = {
        "Jacobian 100 x 100": {
            "value": lambda: mixed(np, SQUARE)(u), "tapegrad": lambda: square(u), "tapegrad, once": lambda: tg.jacobian(mixed(np, SQUARE))(u),
            "autograd": lambda: autograd.jacobian(mixed(anp, SQUARE))(u), "torch.func": lambda: torch.func.jacrev(of_tensor)(tu)},
        "gradients of 256 examples": {
            "value": lambda: error(weights, EXAMPLES, TARGETS), "tapegrad": lambda: each(weights, EXAMPLES, TARGETS)[1][0],
            "tapegrad, once": lambda: once(weights, EXAMPLES, TARGETS)[0], "torch.func": lambda: tensor_each(tweights, texamples, ttargets)[0]},
        "Jacobian 600 x 26, by columns": {
            "value": lambda: of_arrays(x), "tapegrad": lambda: columns(x), "tapegrad, once": lambda: tg.jacobian(of_arrays, mode="forward")(x),
            "torch.func": lambda: torch.func.jacfwd(of_tensors)(tx)},
        "Jacobian 600 x 26, by rows": {
            "value": lambda: of_arrays(x), "tapegrad": lambda: lines(x), "tapegrad, once": lambda: tg.jacobian(of_arrays, mode="reverse")(x),
            "autograd": lambda: autograd.jacobian(of_boxes)(x), "torch.func": lambda: torch.func.jacrev(of_tensors)(tx)},
        "Hessian 50 x 50": {
            "value": lambda: loss(w), "tapegrad": lambda: second(w), "tapegrad, once": lambda: tg.hessian(loss)(w),
            "autograd": lambda: autograd.hessian(boxed_loss)(w), "torch.func": lambda: torch.func.hessian(tensor_loss)(tw)},
        "Hessian times vector": {
            "gradient": lambda: gradient(n)[1], "tapegrad": lambda: along(n, v), "autograd": lambda: boxed_along(n, v),
            "torch.func": lambda: torch.func.jvp(torch.func.grad(tensor_net), (tn,), (tv,))[1]},
    }
    for problem, tools in of_jax(u, w, weights).items() if importlib.util.find_spec("jax") else ():
        found[problem] |= tools
    return found


def measure(tools: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least seconds of a call of each, in turns, once all agree and have been called often."""
    names = [name for name in tools if name not in ("value", "gradient")]
    found = [np.asarray(tools[name]()) for name in names]
    for name, block in zip(names, found):
        np.testing.assert_allclose(block, found[0], 1e-6, 1e-9, err_msg=name)
    for call in tools.values():
        for _ in range(30):
            call()
    times: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, call in tools.items():
            start = perf_counter()
            call()
            times[name].append(perf_counter() - start)
    return {name: min(each) for name, each in times.items()}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    table = Table("problem", "tool", "ms", "ratio")
    for problem, tools in rows().items():
        seconds = measure(tools, rounds)
        one = next(iter(seconds.values()))
        for name, each in seconds.items():
            table.add_row(problem, name, f"{each * 1e3:.3f}", f"{each / one:.1f}")
            problem = ""
    Console().print(table)


if __name__ == "__main__":
    main()
