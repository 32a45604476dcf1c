"""python -m bench: measure one problem, print a table, keep a record.

    python -m bench gmm --data ../shared/data/adbench/gmm_d10_K25.txt --json result.json
    python -m bench gmm --size d=2 K=5 n=1000
    python -m bench recurrence --million
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine, tables
from bench.peers import PEERS
from bench.problems import PROBLEMS
from bench.problems.problem import Problem
from bench.run import Result, measure, sweep


def main(argv: Sequence[str] | None = None) -> int:
    """Run one benchmark; return 1 if gradients differ by more than the tolerance."""
    parser = argument_parser()
    options = parser.parse_args(argv)
    problem = PROBLEMS[options.problem]
    if options.million and problem.million is None:
        parser.error(f"{problem.name} has no --million")
    if options.data and problem.read is None:
        parser.error(f"{problem.name} reads no --data")
    if unknown := {key for key, _ in options.size} - problem.default.keys():
        parser.error(f"{problem.name} has the sizes {', '.join(problem.default)}, and no {', '.join(sorted(unknown))}")
    if options.size and (options.data or options.million):
        parser.error("--size excludes --data and --million")
    if options.repeats is not None and options.repeats < 1:
        parser.error("--repeats must be at least 1")
    console = Console()
    before = machine.load()
    results = measured(problem, options, console)
    after = machine.load()

    if problem.sweep and not options.size:
        console.print(tables.growth(results))
    else:
        console.print(tables.facts(problem.name, results[0]), tables.times(results[0]))
    for line in tables.notes(results):
        console.print(line)
    console.print(f"load {before:.2f} before, {after:.2f} after, {machine.cores()} cores")
    if machine.high(before, after):
        console.print("[bold yellow]the machine was busy with other work: these times say little[/]")
    if options.json:
        record = {**machine.describe(), "load": [before, after], "problem": problem.name, "results": [result.record() for result in results]}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(result.agree for result in results) else 1


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Gradients by tapegrad and by its peers, side by side.")
    parser.add_argument("problem", choices=sorted(PROBLEMS))
    parser.add_argument("--data", type=Path, metavar="PATH", help="a file of the problem's published data; without it, data are made")
    parser.add_argument("--size", nargs="+", type=key_value, default=[], metavar="KEY=N", help="the size of the data to make")
    parser.add_argument("--repeats", type=int, metavar="N", help="measurements of each peer")
    parser.add_argument("--million", action="store_true", help="also with a million recorded operations")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result, and what it depends on, to a file")
    return parser


def key_value(text: str) -> tuple[str, int]:
    """Read `K=25`."""
    key, _, value = text.partition("=")
    return key, int(value)


def measured(problem: Problem, options: argparse.Namespace, console: Console) -> list[Result]:
    """Measure what the options ask for, under a progress bar."""
    repeats = options.repeats or problem.repeats
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(problem.name)

        def progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{problem.name}: {what}", completed=done, total=total)

        if options.data:
            return [measure(problem.loaded(options.data), PEERS, repeats, progress)]
        if options.size or not problem.sweep:
            return [measure(problem.made(**dict(options.size)), PEERS, repeats, progress)]
        sizes = [*problem.sweep, *([problem.million] if options.million and problem.million else [])]
        return list(sweep(problem, sizes, PEERS, repeats, progress))


if __name__ == "__main__":
    sys.exit(main())
