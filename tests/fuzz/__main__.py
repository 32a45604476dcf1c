"""Search for numbers that are silently wrong.

    python -m tests.fuzz --seeds 0:1000                    # programs that these seeds make
    python -m tests.fuzz --seeds new --seconds 120         # where nobody has searched yet, for two minutes
    python -m tests.fuzz --show 17                         # the program of a seed, and what is found
    python -m tests.fuzz --shrink 17                       # the same in a few lines

Ends with 1 where something is found, unless that is only to be reported (`--report`): what a new draw finds is seldom the fault of the last
change. A find is a difference without an exception, or an exception that plain NumPy does not raise;
a TapeError is a refusal, and counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.fuzz.compare import examine
from tests.fuzz.generate import generate
from tests.fuzz.modes import FUNCTIONS, GRADIENTS, TAPES
from tests.fuzz.search import Tally, explored, first_seed, rows, search

EVERYTHING = {"grad", "differences", *FUNCTIONS, *TAPES, *GRADIENTS}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:1000", help="a range, first:end, or 'new'")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", "--time", type=float, default=1e9, help="stop after as long")
    parser.add_argument("--out", type=Path, help="a file to which finds are appended, a line of JSON each")
    parser.add_argument("--shorten", type=float, default=20.0, metavar="SECONDS", help="time to shrink each find, 0 for none")
    parser.add_argument("--finds", type=int, default=10_000, help="stop after as many programs with finds")
    parser.add_argument("--report", action="store_true", help="end with 0 though something is found")
    parser.add_argument("--show", type=int, metavar="SEED", help="print a program, and run it in every mode")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="print a program with a find, shrunk")
    options = parser.parse_args()
    if options.show is not None:
        return show(options.show)
    if options.shrink is not None:
        return shorten(options.shrink)
    return explore(options)


def show(seed: int) -> int:
    """Print the program of a seed, and what is found in every mode."""
    program = generate(seed)
    print(program.script())
    report = examine(program, EVERYTHING)
    for find in report.finds:
        print(f"# {find.kind}, {find.mode}, call {find.call}: {find.detail}")
    print(f"# {report.outcome}; refused: {dict(report.refused)}")
    return bool(report.finds)


def shorten(seed: int) -> int:
    """Print each find of a seed, shrunk."""
    report = explored(seed)
    for row in rows(seed, report, 300.0):
        print_row(row)
    return bool(report.finds)


def print_row(row: dict[str, object]) -> None:
    """Print a find: the modes that differ, numbers, a program that runs."""
    print(f"\n# seed {row['seed']}")
    for find in row["finds"]:  # type: ignore[attr-defined]
        print(f"# {find['kind']}, {find['mode']}, call {find['call']}: {find['detail'][:400]}")
    print(row["program"], flush=True)


def explore(options: argparse.Namespace) -> int:
    """Search."""
    seeds: Iterable[int]
    if options.seeds == "new":
        begin = first_seed()
        seeds, total = itertools.count(begin), None
        print(f"seeds {begin}:")
    else:
        begin, end = map(int, options.seeds.split(":"))
        seeds, total = range(begin, end), end - begin
    tally, found = Tally(), 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("programs", total=total)
        for seed, report in search(seeds, options.jobs, options.seconds):
            tally.add(report)
            found += bool(report.finds)
            bar.update(task, advance=1, description=f"programs, {found} finds")
            for row in rows(seed, report, options.shorten):
                print_row(row)
                if options.out is not None:
                    with options.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            if found >= options.finds:
                break
    programs = sum(tally.outcomes.values())
    print(f"{programs} programs, seeds from {begin}: {found} with finds; {dict(tally.outcomes)}")
    for kind, count in tally.kinds.most_common():
        print(f"{count:8} {kind}")
    print(f"compared: {dict(tally.compared.most_common())}")
    print(f"refused: {dict(tally.refused.most_common(12))}")
    return bool(found) and not options.report


if __name__ == "__main__":
    sys.exit(main())
