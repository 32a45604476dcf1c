"""python -m bench.sparse: the sparse Jacobian of a Brusselator in two dimensions, and the coefficients of a power
series to growing orders.

How many sweeps a Jacobian takes, how long its pattern and its colours take to be found, the first call, the shortest
time of those that are compiled, and that in evaluations of the function by plain NumPy. Of power series the shortest
times, of the whole call.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tapegrad as tg
from tapegrad.transforms.colouring import colours_of_columns

SIDES = (22, 71, 224)  # of a grid: 10³, 10⁴ and 10⁵ unknowns
ORDERS = (5, 10, 20, 40, 80)


def brusselator(u: Any, a: float = 3.4, b: float = 1.0, alpha: float = 10.0) -> Any:
    """Return the rate of change of two substances that react, and diffuse on a grid that goes round."""
    n = u.shape[-1]

    def laplacian(w: Any) -> Any:
        near = np.roll(w, 1, 0) + np.roll(w, -1, 0) + np.roll(w, 1, 1) + np.roll(w, -1, 1)
        return alpha * (n - 1) ** 2 * (near - 4 * w)
    x, y = u
    xxy = x * x * y
    return np.stack([b + xxy - (a + 1) * x + laplacian(x), a * x - xxy + laplacian(y)])


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def rows(rounds: int) -> list[list[str]]:
    """Return the table of Jacobians: unknowns, colours, times in ms, ratio."""
    made = []
    for side in SIDES:
        u = np.random.default_rng(0).random((2, side, side))
        jac = tg.sparse_jacobian(brusselator)
        first = seconds(lambda jac=jac, u=u: jac(u))
        pattern = tg.jacobian_sparsity(brusselator, u)
        found = seconds(lambda u=u: tg.jacobian_sparsity(brusselator, u))
        sweeps = colours_of_columns(pattern).max() + 1
        coloured = seconds(lambda pattern=pattern: colours_of_columns(pattern))
        for _ in range(3):
            jac(u)
        pairs = [(seconds(lambda jac=jac, u=u: jac(u)), seconds(lambda u=u: brusselator(u))) for _ in range(rounds)]
        least, once = (min(times) for times in zip(*pairs))
        made.append([f"{u.size:,}", str(sweeps),
                     *[f"{each * 1e3:.2f}" for each in (found, coloured, first, least, once)], f"{least / once:.1f}"])
    return made


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    table = Table("unknowns", "sweeps", "pattern, ms", "colours, ms", "first call, ms", "Jacobian, ms", "f, ms",
                  "ratio")
    for row in rows(rounds):
        table.add_row(*row)
    Console().print(table)
    table = Table("order", "ms")
    for order in ORDERS:
        best = min(seconds(lambda n=order: tg.taylor(lambda x: np.exp(np.sin(x)), 0.3, n)) for _ in range(rounds))
        table.add_row(str(order), f"{1e3 * best:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
