"""python -m bench.one_shot: the gradient of small arrays, once and without compiling, by tapegrad and
by HIPS autograd, in turns.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from types import FunctionType
from typing import Any, NamedTuple

import autograd
import autograd.numpy
import numpy as np
from rich.console import Console
from rich.table import Table

import tapegrad
from bench.machine import Watch, describe
from bench.options import RESULTS

ROUNDS, CALLS = 300, 5
Objective = Callable[..., Any]


X, SIZES = np.linspace(0.0, 1.0, 20), [4, 16, 16, 1]
SQUARES, Y = (X[:, None] - X[None, :]) ** 2, np.sin(6 * X)
RNG = np.random.default_rng(0)
FEATURES, TARGETS = RNG.normal(size=(32, 4)), RNG.normal(size=(32, 1))
WEIGHTS = [(RNG.normal(size=(m, n)) / m ** 0.5, np.zeros(n)) for m, n in pairwise(SIZES)]


def rosenbrock(x: Any) -> Any:
    """Return Rosenbrock's function."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def gaussian_process(theta: Any) -> Any:
    """Return the negative log marginal likelihood of a Gaussian process at 20 points, of the logarithms
    of its three parameters.
    """
    kernel = np.exp(theta[0]) * np.exp(-0.5 * SQUARES / np.exp(2 * theta[1])) + np.exp(theta[2]) * np.eye(20)
    lower = np.linalg.cholesky(kernel)
    alpha = np.linalg.solve(kernel, Y)
    return 0.5 * np.dot(Y, alpha) + np.sum(np.log(np.diag(lower))) + 10.0 * np.log(2 * np.pi)


def network(weights: Any) -> Any:
    """Return the squared error of a network with two hidden layers, of its weights."""
    h = FEATURES
    for W, b in weights[:-1]:
        h = np.tanh(np.dot(h, W) + b)
    W, b = weights[-1]
    return np.mean((np.dot(h, W) + b - TARGETS) ** 2)


PROGRAMS: list[tuple[Objective, Any]] = [
    (rosenbrock, np.linspace(-1.0, 1.0, 10)), (gaussian_process, np.array([0.0, -1.0, -2.0])), (network, WEIGHTS)]


def written_with(f: Objective, module: Any) -> Objective:
    """Return the same program, with another module for `np`."""
    return FunctionType(f.__code__, {**globals(), "np": module}, f.__name__)


class Row(NamedTuple):
    """What was measured of a program, in microseconds: the medians and the least of each."""

    name: str
    ours: float
    theirs: float
    our_least: float
    their_least: float


def measured(f: Objective, x: Any) -> Row:
    """Time both in turns, so that what else the machine does meets both; the gradients must agree."""
    theirs = autograd.value_and_grad(written_with(f, autograd.numpy))
    runs: list[Callable[[], Any]] = [lambda: tapegrad.grad(f, x, argnums=0), lambda: theirs(x)]
    np.testing.assert_allclose(*[np.concatenate([np.ravel(x) for x in leaves(run()[1])]) for run in runs], rtol=1e-8)
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for run, found in zip(runs, times):
            begin = perf_counter()
            for _ in range(CALLS):
                run()
            found.append((perf_counter() - begin) / CALLS * 1e6)
    return Row(f.__name__, *map(median, times), *map(min, times))


def leaves(x: Any) -> list[Any]:
    """Return the arrays of nested tuples and lists."""
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def main() -> None:
    """Print the table, and keep a record if that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m bench.one_shot",
                                     description="One gradient of small arrays, by tapegrad and by HIPS autograd.")
    parser.add_argument("--save", action="store_true", help="write one_shot.json into bench/results")
    save, watch, rows = parser.parse_args().save, Watch(), []
    table = Table("program", *(f"{what}, µs" for what in ("tapegrad", "autograd")), "ratio", "of the least",
                  title="one-shot value and gradient")
    for f, x in PROGRAMS:
        gc.collect()
        row = measured(f, x)
        rows.append(row)
        table.add_row(row.name, f"{row.ours:.0f}", f"{row.theirs:.0f}", f"{row.ours / row.theirs:.2f}",
                      f"{row.our_least / row.their_least:.2f}")
    Console().print(table)
    if save:
        record = {**describe(), **watch.stop().record(), "unit": "microseconds",
                  "rows": [row._asdict() for row in rows]}
        (RESULTS / "one_shot.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
