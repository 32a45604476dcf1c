"""python -m bench.branches: gradients with independent large products, on one thread and on two.

Both are measured alternately in one process, and the shortest of all calls counts; a call on two threads says also how
many seconds the processors worked for it. Two programs have nothing to gain: products of which each needs the one
before, and products that are too short.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tapegrad as tg
from bench.machine import describe, load

THREADS = (1, 2)


def branches(a: list[Any], x: list[Any]) -> Any:
    """Return a sum of parts that do not depend on each other."""
    return sum(np.tanh(a_k @ x_k).sum() for a_k, x_k in zip(a, x))


def layers(w: list[Any], x: list[Any]) -> Any:
    """Return a network's value: of each layer's two products in the sweep one goes on, and the other is a gradient."""
    y = x[0]
    for w_k in w:
        y = np.tanh(y @ w_k)
    return y.sum()


def chain(a: list[Any], x: list[Any]) -> Any:
    """Return a product of matrices, of which one is differentiated."""
    y = x[0]
    for _ in range(4):
        y = np.tanh(y @ A)
    return y.sum()


def matrices(n: int, count: int = 4) -> list[Any]:
    """Return random matrices."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n, n)) / n ** 0.5 for _ in range(count)]


A = matrices(600, 1)[0]
CASES: dict[str, tuple[Callable[..., Any], int]] = {
    "four branches of 600²": (branches, 600), "four layers of 600²": (layers, 600),
    "four branches of 220²": (branches, 220), "a chain of 600² (nothing to gain)": (chain, 600),
    "four branches of 100² (nothing to gain)": (branches, 100)}


def measured(f: Callable[..., Any], n: int, mode: str, seconds: float) -> dict[str, Any]:
    """Return the shortest time of a call on each number of threads, and whether all bits are the same."""
    tg.set_num_threads(max(THREADS))
    step, args = tg.value_and_grad(f, argnums=(0, 1), mode=mode, warmup=1), (matrices(n), matrices(n))
    for _ in range(3):
        step(*args)
    times: dict[int, list[float]] = {k: [] for k in THREADS}
    work: dict[int, list[float]] = {k: [] for k in THREADS}
    bits, end = {}, perf_counter() + seconds
    while perf_counter() < end or not times[max(THREADS)]:
        for k in THREADS:
            tg.set_num_threads(k)
            start, begun = perf_counter(), process_time()
            found = step(*args)
            times[k].append(perf_counter() - start)
            work[k].append(process_time() - begun)
            bits[k] = [np.asarray(x).tobytes() for x in tg.tree.leaves((found,))]
    return {"seconds": {k: min(each) for k, each in times.items()},
            "worked": {k: min(each) for k, each in work.items()},
            "calls": len(times[1]), "same bits": all(bits[k] == bits[1] for k in THREADS)}


def main() -> None:
    """Print a table, and write it to a file if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = Table("gradient of", "", *[f"ms, {k} thread{'s' * (k > 1)}" for k in THREADS], "speed", "same bits")
    results: dict[str, Any] = {}
    before = tg.get_num_threads()
    for name, (f, n) in CASES.items():
        for mode in ("native", "numpy"):
            found = results[f"{name}, {mode}"] = measured(f, n, mode, options.seconds)
            one, two = (found["seconds"][k] for k in THREADS)
            table.add_row(name, mode, f"{1e3 * one:.2f}", f"{1e3 * two:.2f}", f"{one / two:.2f}",
                          "yes" if found["same bits"] else "no")
    tg.set_num_threads(before)
    Console().print(table)
    if options.json:
        record: dict[str, Any] = {**describe(), "load": load(), **results}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
