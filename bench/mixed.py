"""python -m bench.mixed: forward differentiation of a call within a reverse sweep, `tapegrad.forwarddiff`, beside the
ordinary sweep: a chain of elementwise operations, of one to three numbers or of an array, in a larger program.

The shortest time of a gradient at once, and of a compiled one, and the most memory beyond what there was before, for
each; ratios are forward to ordinary. Where they are above 1, it pays nowhere to choose forward differentiation unasked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tapegrad as tg
from bench.machine import Watch, describe
from bench.memory import baseline, peak
from bench.options import RESULTS

STEPS = 25  # of two operations each
SIZES = 1_000, 100_000, 1_000_000
BUDGET = 0.5  # seconds for the calls of one way


def chain(*params: Any) -> Any:
    """Return what a long chain of elementwise operations makes of numbers and an array."""
    y = params[0]
    for k in range(STEPS):
        y = np.sin(y) * params[k % len(params)]
    return y


def programs(size: int) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return functions that a call of a chain is made in, by what it is given, and their arguments."""
    grid, weights = np.linspace(0.1, 1.0, size), np.linspace(-1.0, 1.0, size)

    def of(numbers: int) -> Callable[..., Any]:
        return lambda kernel: lambda *p: (np.exp(kernel(*p, grid)) * weights).sum()
    found: dict[str, Any] = {f"{n} number{'s' * (n > 1)}": (of(n), (1.2, 0.9, 1.1)[:n]) for n in (1, 2, 3)}
    found["an array"] = (lambda kernel: lambda x: (np.exp(kernel(x)) * weights).sum()), (grid,)
    found["an array, 5 calls"] = (lambda kernel: lambda x: (repeated(kernel, x, 5) * weights).sum()), (grid,)
    return found


def repeated(kernel: Callable[[Any], Any], x: Any, times: int) -> Any:
    """Return what a function makes of a value, called again and again."""
    for _ in range(times):
        x = kernel(x) + 0.5
    return x


def measured(call: Callable[[], Any]) -> tuple[float, float]:
    """Return the shortest time of a call, and the most memory that one takes."""
    call()
    before = baseline()
    call()
    most, start, times = peak() - before, perf_counter(), list[float]()
    while len(times) < 3 or (perf_counter() - start < BUDGET and len(times) < 100):
        begun = perf_counter()
        call()
        times.append(perf_counter() - begun)
    return min(times), most


def rows() -> list[dict[str, Any]]:
    """Return what was measured: for each way that a gradient is found, of ordinary and forward differentiation."""
    found = []
    for size in SIZES:
        for name, (program, args) in programs(size).items():
            row: dict[str, Any] = {"of": name, "size": size}
            for way, kernel in (("reverse", chain), ("forward", tg.forwarddiff(chain))):
                f = program(kernel)
                row[f"once, {way}"], row[f"memory, {way}"] = measured(lambda f=f, args=args: tg.grad(f, *args))
                step = tg.value_and_grad(f, argnums=None, warmup=1)
                for _ in range(3):
                    step(*args)
                row[f"compiled, {way}"], row[f"compiled memory, {way}"] = measured(lambda g=step, a=args: g(*a))
            found.append(row)
    return found


def main() -> None:
    """Print the table, and keep a record if that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m bench.mixed", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write mixed.json into bench/results")
    given, watch = parser.parse_args(), Watch()
    found, table = rows(), Table("of", "size", "once, ms", "ratio", "MB", "ratio", "compiled, ms", "ratio", "MB",
                                 "ratio")
    for row in found:
        cells = []
        for what, unit in (("once", 1e3), ("memory", 1e-6), ("compiled", 1e3), ("compiled memory", 1e-6)):
            one, other = row[f"{what}, reverse"] * unit, row[f"{what}, forward"] * unit
            cells += [f"{one:.3g}", f"{other / one:.2f}" if one > 0.05 else "-"]
        table.add_row(row["of"], f"{row['size']:,}", *cells)
    Console().print(table)
    if given.save:
        record = {**describe(), **watch.stop().record(), "unit": "seconds, bytes", "rows": found}
        (RESULTS / "mixed.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
