"""python -m bench.one_shot: the gradient of small arrays, once and without compiling, by tapegrad and by HIPS autograd, in turns."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import autograd
import autograd.numpy
import numpy
from rich.console import Console
from rich.table import Table

import tapegrad

ROUNDS, CALLS = 300, 5
Objective = Callable[..., Any]


def rosenbrock(np: Any) -> tuple[Objective, tuple[Any, ...]]:
    """Return Rosenbrock's function of ten numbers."""
    def objective(x: Any) -> Any:
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    return objective, (numpy.linspace(-1.0, 1.0, 10),)


def gaussian_process(np: Any) -> tuple[Objective, tuple[Any, ...]]:
    """Return the negative log marginal likelihood of a Gaussian process at 20 points, of the logarithms of its three parameters."""
    x = numpy.linspace(0.0, 1.0, 20)
    y = numpy.sin(6 * x)
    squares = (x[:, None] - x[None, :]) ** 2

    def objective(theta: Any) -> Any:
        kernel = np.exp(theta[0]) * np.exp(-0.5 * squares / np.exp(2 * theta[1])) + np.exp(theta[2]) * np.eye(20)
        lower = np.linalg.cholesky(kernel)
        alpha = np.linalg.solve(kernel, y)
        return 0.5 * np.dot(y, alpha) + np.sum(np.log(np.diag(lower))) + 10.0 * np.log(2 * np.pi)
    return objective, (numpy.array([0.0, -1.0, -2.0]),)


def network(np: Any) -> tuple[Objective, tuple[Any, ...]]:
    """Return the squared error of a network with two hidden layers, of its weights."""
    rng = numpy.random.default_rng(0)
    sizes = [4, 16, 16, 1]
    weights = [(rng.normal(size=(m, n)) / m ** 0.5, numpy.zeros(n)) for m, n in pairwise(sizes)]
    x, y = rng.normal(size=(32, 4)), rng.normal(size=(32, 1))

    def objective(weights: Any) -> Any:
        h = x
        for W, b in weights[:-1]:
            h = np.tanh(np.dot(h, W) + b)
        W, b = weights[-1]
        return np.mean((np.dot(h, W) + b - y) ** 2)
    return objective, (weights,)


class Row(NamedTuple):
    """What was measured of a program, in microseconds: the medians and the least of each."""

    name: str
    ours: float
    theirs: float
    our_least: float
    their_least: float


def measured(make: Callable[[Any], tuple[Objective, tuple[Any, ...]]]) -> Row:
    """Time both in turns, so that what else the machine does meets both; the gradients must agree."""
    (f, args), (g, _) = make(numpy), make(autograd.numpy)
    theirs = autograd.value_and_grad(g)
    runs: list[Callable[[], Any]] = [lambda: tapegrad.grad(f, *args, argnums=0), lambda: theirs(*args)]
    numpy.testing.assert_allclose(*[numpy.concatenate([numpy.ravel(x) for x in leaves(run()[1])]) for run in runs], rtol=1e-8)
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for run, found in zip(runs, times):
            begin = perf_counter()
            for _ in range(CALLS):
                run()
            found.append((perf_counter() - begin) / CALLS * 1e6)
    return Row(make.__name__, *map(median, times), *map(min, times))


def leaves(x: Any) -> list[Any]:
    """Return the arrays of nested tuples and lists."""
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def main() -> None:
    """Print the table."""
    table = Table("program", *(f"{what}, µs" for what in ("tapegrad", "autograd")), "ratio", "of the least", title="one-shot value and gradient")
    for make in (rosenbrock, gaussian_process, network):
        gc.collect()
        row = measured(make)
        table.add_row(row.name, f"{row.ours:.0f}", f"{row.theirs:.0f}", f"{row.ours / row.theirs:.2f}", f"{row.our_least / row.their_least:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
