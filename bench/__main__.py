"""python -m bench: measure problems by all peers, print tables, keep a record; `--help` says how."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import run, tables
from bench.growth import growth, remarks
from bench.machine import Watch, describe, limited
from bench.options import parse, summary
from bench.peers import PEERS
from bench.plot import plot
from bench.problems.problem import Problem
from bench.sweep import Step, sweep
from bench.team import Ended

WIDE = 150  # columns, where the output is no terminal
SWEPT = 5  # measurements of a peer at one size


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if gradients differ by more than a problem's tolerance."""
    options = parse(argv)
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with limited(options.cores):
        return swept(options.problems[0], options, console) if options.sweep else compared(options, console)


def compared(options: argparse.Namespace, console: Console) -> int:
    """Measure each problem by the peers, and print its table, then those of all."""
    results: list[run.Result] = []
    records: list[dict[str, Any]] = []
    for problem in options.problems:
        watch = Watch()
        console.print(f"[bold]{problem.name}[/]: {summary(problem)}")
        try:
            result = measured(problem, options, console)
        except Ended as err:
            console.print(f"[bold red]{err}[/]\n")
            continue
        watch.stop()
        results.append(result)
        records.append({**describe(), **watch.record(), **result.record()})
        size = tables.sized(result.size) or "one size"
        console.print(f"{size}, {result.source}, value {result.value:.15g}, gradient's norm {result.norm:.15g}",
                      tables.problem(result))
        finish(tables.notes([result]), watch, console)
        keep(options, problem.name, records[-1])
        if options.json:  # after each problem, so that a run that is broken off leaves what it has
            write(options.json, records)
    if options.plot:
        options.plot.write_text(plot(records))
    if len(results) > 1:
        console.rule("all problems")
        show(results, options, console)
    return 1 if len(results) < len(options.problems) or any(result.wrong for result in results) else 0


def measured(problem: Problem, options: argparse.Namespace, console: Console) -> run.Result:
    """Measure a problem by the peers that have a version of it, under a progress bar."""
    names = [name for name in options.peers if PEERS[name].fits(problem)]
    data = ["--data", str(options.data)] if options.data else []
    size = ["--size", *(f"{key}={n}" for key, n in options.size)] if options.size else []
    with progress_bar(problem.name, console) as progress:
        return run.measure(problem.found(options.data, dict(options.size)), names, [*data, *size],
                           options.repeats or problem.repeats,
                           options.limit, progress, "minimum" if options.minima else "median")


def show(results: Sequence[run.Result], options: argparse.Namespace, console: Console) -> None:
    """Print the tables of all problems."""
    console.print(tables.steady(results))
    if any(result.row(tables.COMPILED) for result in results):
        console.print(tables.against(results), *tables.reasons(results), sep="\n")
    if not options.no_first:
        console.print(tables.first(results))
    if not options.no_memory:
        console.print(tables.memory(results))


def swept(problem: Problem, options: argparse.Namespace, console: Console) -> int:
    """Measure a problem at growing sizes."""
    watch = Watch()
    sizes = [*problem.sweep, *([problem.million] if options.million and problem.million else [])]
    with progress_bar(problem.name, console) as progress:
        peers = [PEERS[name] for name in problem.sweep_peers]
        steps: list[Step] = list(sweep(problem, sizes, peers, options.repeats or SWEPT, progress))
    watch.stop()
    console.print(growth(steps))
    finish(remarks(steps), watch, console)
    record = {**describe(), **watch.record(), "problem": problem.name, "steps": [step.record() for step in steps]}
    keep(options, f"{problem.name}_sweep", record)
    if options.json:
        write(options.json, record)
    return 1 if any(step.wrong for step in steps) else 0


@contextmanager
def progress_bar(name: str, console: Console) -> Iterator[run.Progress]:
    """Show what is being done to a problem."""
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console,
                  transient=True) as bar:
        task = bar.add_task(name)
        yield lambda what, done, total: bar.update(task, description=f"{name}: {what}", completed=done, total=total)


def finish(remarks: Sequence[str], watch: Watch, console: Console) -> None:
    """Print the remarks, and what else the machine was doing."""
    for line in remarks:
        console.print(line)
    console.print(str(watch))
    if watch.disturbed:
        console.print("[bold yellow]other processes were at work: these times say little[/]")
    console.print()


def keep(options: argparse.Namespace, name: str, record: dict[str, Any]) -> None:
    """Write a record into the folder for results, if there is to be one."""
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        write(options.save / f"{name.replace(' (', '_').rstrip(')')}.json", record)


def write(path: Path, what: Any) -> None:
    """Write JSON."""
    path.write_text(json.dumps(what, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
