"""python -m bench.derivatives: Jacobians, Hessians and products with Hessians, by tapegrad, HIPS autograd and torch.func, in turns.

The shortest times of the steady state, and as multiples of the value by plain NumPy, or of a gradient by `tapegrad.value_and_grad`.
"""

from __future__ import annotations

import argparse
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
    return {
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
