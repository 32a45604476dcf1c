"""python -m bench.derivatives: Jacobians, dense and sparse, Hessians, products with these, gradients per example, power
series and long loops, by tapegrad, HIPS autograd, torch.func and, where it is installed, JAX, in turns.

The first call, with what it compiles, and medians of the steady state, as multiples of the value by plain NumPy, or of
a gradient by `tapegrad.value_and_grad`, and the memory that a call takes. A tool that takes seconds for a call is
called a few times.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.sparse import issparse

from bench.derivative_rows import Makers, Tool, rows
from bench.machine import Watch, describe
from bench.memory import baseline, peak
from bench.options import RESULTS

BUDGET = 20.0  # seconds for the calls of all tools of a problem
OFTEN = 10


class Row(NamedTuple):
    """What was measured of a tool: the first call, the median and the least of the steady state, in seconds, and the
    bytes that a call takes at most beyond what there was.
    """

    problem: str
    tool: str
    first: float
    median: float
    least: float
    memory: float


def seconds(call: Tool) -> float:
    """Return how long a call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def taken(call: Tool) -> float:
    """Return the bytes that a call takes at most beyond those that there were, of a tool that tells what it says."""
    if hasattr(call, "memory"):
        return call.memory()  # type: ignore[no-any-return]
    before = baseline()
    call()
    return peak() - before


def numbers(value: Any) -> Any:
    """Return what a tool computed as an array; of a sparse one, and of those beside it, what is not 0, in order."""
    return np.sort(value.data) if issparse(value) else np.stack(value) if isinstance(value, list) else np.asarray(value)


def agree(one: Any, other: Any, what: str) -> None:
    """Raise AssertionError where two tools computed different numbers."""
    if one.shape != other.shape:
        one, other = (np.sort(x[x != 0], axis=None) for x in (one, other))
    np.testing.assert_allclose(one, other, 1e-6, 1e-8 * abs(one).max(), err_msg=what)


def measured(problem: str, base: tuple[str, Tool], makers: Makers, rounds: int) -> list[Row]:
    """Time all tools in turns, once all agree and are compiled, and what they are compared with first of all."""
    calls: dict[str, Tool] = {base[0]: base[1]}
    first, found = {base[0]: seconds(base[1])}, []
    for name, make in makers.items():
        gc.collect()
        start = perf_counter()
        calls[name] = make()
        value = calls[name]()
        first[name] = perf_counter() - start
        found.append(numbers(value))
        agree(found[0], found[-1], f"{problem}: {name}")
    each = {name: seconds(call) for name, call in calls.items()}
    for name, call in calls.items():  # tapegrad compiles a path once it has been met some times
        for _ in range(max(OFTEN if name.startswith("tapegrad") else 1, min(30, int(BUDGET / 10 / each[name])))):
            call()
    memory = {name: taken(call) for name, call in calls.items()}
    turns = max(3, min(rounds, int(BUDGET / sum(map(seconds, calls.values())))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return [Row(problem, name, first[name], median(times[name]), min(times[name]), memory[name])
            for name in calls]


def table(found: Sequence[Row]) -> Table:
    """Return the table: a line for each tool, the problem's name in the first."""
    made = Table("problem", "tool", "first, ms", "median, ms", "least, ms", "ratio", "MB")
    one, problem = 0.0, ""
    for row in found:
        one = row.median if row.problem != problem else one
        made.add_row("" if row.problem == problem else row.problem, row.tool,
                     *[f"{each * 1e3:.3g}" for each in (row.first, row.median, row.least)],
                     f"{row.median / one:.1f}", f"{row.memory / 1e6:.1f}")
        problem = row.problem
    return made


def main(args: Sequence[str] | None = None) -> None:
    """Print the table, and keep a record if that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m bench.derivatives", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="how often each tool is called in turns")
    parser.add_argument("--only", default="", help="problems whose names contain this")
    parser.add_argument("--bundle", type=Path, help="ADBench's file of a bundle adjustment, instead of drawn data")
    parser.add_argument("--save", action="store_true", help="write derivatives.json into bench/results")
    given = parser.parse_args(args)
    torch.set_num_threads(1)
    watch, found = Watch(), list[Row]()
    for problem, (what, base, makers) in rows(given.bundle).items():
        if given.only in problem:
            found += measured(problem, (what, base), makers, given.rounds)
    Console().print(table(found))
    if given.save:
        path, measured_now = RESULTS / "derivatives.json", {row.problem for row in found}
        kept = json.loads(path.read_text())["rows"] if given.only and path.exists() else []
        kept = [row for row in kept if row["problem"] not in measured_now]  # of problems that were left out
        record: dict[str, Any] = {
            **describe(), **watch.stop().record(), "unit": "seconds",
            "rows": [*kept, *[row._asdict() for row in found]]}
        path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
