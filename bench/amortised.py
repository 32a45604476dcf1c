"""amortised: what n calls of a compiled function cost, beside n gradients, and beside compiling at the second call.

    python -m bench.amortised [--save]

A function is compiled at its third call; one that takes long to compile once its traced calls have taken as long, so
that it takes at most about twice as long as if one knew how often it will be called. The ratio here is of the time of n
calls to the less of n one-shot gradients and of compiling at the second call.

Each repeat is a function that has never been called, whose code nothing has been noted of. Times are of this thread on
its core: other processes take turns with it. Medians of repeats.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from time import thread_time
from types import FunctionType
from typing import Any

from rich.console import Console
from rich.table import Table

import tapegrad as tg
from bench.machine import describe
from bench.programs import SMALL, TRAINING, Program

CALLS = (1, 2, 3, 5, 10, 20, 50, 100, 300, 1000)
TRAINED = (1, 2, 3, 5, 10, 20, 50, 100, 150, 300)
SHOTS = 50  # one-shot gradients; more of them cost as much each
BARS = "▁▂▃▄▅▆▇█"
RESULTS = Path(__file__).parent / "results" / "amortised.json"
_numbers = count()


def fresh(f: Any) -> Any:
    """Return a function like another, of which nothing is known: code objects are equal by what is in them."""
    code = f.__code__.replace(co_name=f"{f.__name__}_{next(_numbers)}")
    return FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


def cumulated(call: Callable[..., Any], program: Program, calls: Sequence[int]) -> list[float]:
    """Return the seconds of so many calls, for each of several numbers."""
    given = [program.args(it) for it in range(calls[-1])]
    seconds, done, spent = [], 0, 0.0
    gc.collect()
    for n in calls:
        start = thread_time()
        for args in given[done:n]:
            call(*args)
        spent, done = spent + thread_time() - start, n
        seconds.append(spent)
    return seconds


def extended(seconds: list[float], calls: Sequence[int]) -> list[float]:
    """Return the seconds of more calls that all cost the same: as much as those between the last two
    numbers that were measured.
    """
    k = len(seconds)
    each = (seconds[-1] - seconds[-2]) / (calls[k - 1] - calls[k - 2])
    return [*seconds, *(seconds[-1] + (n - calls[k - 1]) * each for n in calls[k:])]


def measure(program: Program, calls: Sequence[int], repeats: int, backend: str) -> dict[str, Any]:
    """Return the seconds of n calls by each of the ways, which take turns."""
    few = [n for n in calls if n <= SHOTS]
    times: dict[str, list[list[float]]] = {"grad": [], "auto": [], "at once": []}
    tg.value_and_grad(program.f, argnums=None, warmup=1, backend=backend)(*program.args(0))
    stats = ""
    for _ in range(repeats):
        times["grad"].append(cumulated(partial(tg.grad, fresh(program.f)), program, few))
        for name, warmup in (("auto", None), ("at once", 1)):
            step = tg.value_and_grad(fresh(program.f), argnums=None, warmup=warmup, backend=backend)
            times[name].append(cumulated(step, program, calls))
            stats = repr(step.stats) if name == "auto" else stats  # type: ignore[attr-defined]
    one, auto, at_once = ([statistics.median(column) for column in zip(*rows)] for rows in times.values())
    one = extended(one, calls)
    return {"program": program.name, "backend": backend, "calls": list(calls), "grad": one, "auto": auto,
            "at once": at_once, "stats": stats,
            "ratios": [a / min(g, b) for g, a, b in zip(one, auto, at_once)]}


def sparkline(ratios: Sequence[float]) -> str:
    """Draw ratios from 0.5 to 2.5."""
    return "".join(BARS[min(max(int((ratio - 0.5) / 2.0 * len(BARS)), 0), len(BARS) - 1)] for ratio in ratios)


def table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Show the ratios of several programs."""
    shown = Table(title=title)
    for header in ("", "ms/grad", "ms compiling", *map(str, rows[0]["calls"]), "0.5 … 2.5", "n grad /"):
        shown.add_column(header, justify="right" if header else "left")
    for row in rows:
        grad = row["grad"][-1] / row["calls"][-1]
        compiling = row["at once"][2] - 2 * grad
        ratios = [f"[bold red]{ratio:.2f}[/]" if ratio > 2.0 else f"{ratio:.2f}" for ratio in row["ratios"]]
        gain = row["grad"][-1] / row["auto"][-1]
        shown.add_row(row["program"], f"{1e3 * grad:.2f}", f"{1e3 * compiling:.1f}", *ratios, sparkline(row["ratios"]),
                      f"{gain:.1f}")
    return shown


def main() -> None:
    """Measure, print, and keep a record."""
    parser = argparse.ArgumentParser(prog="python -m bench.amortised",
                                     description="What n calls cost, beside n gradients and compiling at once.")
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose names have this in them")
    parser.add_argument("--backend", default="numpy", choices=["numpy", "torch"])
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name} into bench/results")
    options = parser.parse_args()
    console = Console(width=170)
    warnings.simplefilter("ignore", tg.RetraceWarning)
    record: dict[str, Any] = describe()
    for title, programs, calls in (("n calls", SMALL, CALLS), ("training", TRAINING, TRAINED)):
        chosen = [program for program in programs if options.only.lower() in program.name.lower()]
        rows = [measure(program, calls, options.repeats, options.backend) for program in chosen]
        if rows:
            console.print(table(f"{title}: time / less of n gradients and of compiling at once", rows))
            record[title] = rows
            for row in rows:
                console.print(f"  {row['program']}: {row['stats']}")
    if options.save:
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
