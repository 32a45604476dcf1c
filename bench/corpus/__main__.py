"""python -m bench.corpus: what tapegrad makes of programs that others wrote; `--help` says how."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.metadata
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from bench.corpus.case import Case, load
from bench.machine import describe
from bench.options import RESULTS
from bench.team import ROOT

STYLES = {"works": "green", "slow": "cyan", "refused": "yellow", "crashed": "bold red", "wrong": "bold red",
          "broken": "magenta"}
FOOTNOTE = """\
works: values, one gradient, and three compiled ones with other arguments agree with the program and with central
differences at two steps; slow: so they do, but a compiled gradient takes more than 10 times the program; refused: a
TapeError; wrong: another number;
crashed: another error, no end within the limit, or a dead process; broken: the program alone does not run here."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the corpus; return 1 if a gradient is wrong or a case crashed."""
    parser = argparse.ArgumentParser(prog="python -m bench.corpus", description=__doc__, epilog=FOOTNOTE)
    parser.add_argument("--only", nargs="+", metavar="PATTERN", default=["*"],
                        help="cases whose name holds one of these, or matches it (*filterpy*)")
    parser.add_argument("--limit", type=float, default=120.0, metavar="S", help="seconds that a case has (120)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time (1)")
    parser.add_argument("--plain", action="store_true", help="run the programs alone, without derivatives")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and run none")
    parser.add_argument("--save", action="store_true",
                        help="write into bench/results/corpus.json, in place of what is there of these cases")
    options = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 150)
    cases = [case for case in load().values()
             if any(only in case.name or fnmatch.fnmatch(case.name, only) for only in options.only)]
    if options.list:
        console.print(*(case.name for case in cases), sep="\n")
        return 0
    results = run(cases, options, console)
    show(results, console)
    return 1 if {"wrong", "crashed"} & counts(results).keys() else 0


def run(cases: Sequence[Case], options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Run each case in a process of its own, under a progress bar."""
    results = []
    with Progress(console=console, transient=True) as progress, ThreadPoolExecutor(options.jobs) as pool:
        task = progress.add_task("corpus", total=len(cases))
        for result in pool.map(lambda case: alone(case, options), cases):
            results.append(result)
            if options.save:  # after each, so that a run that is broken off leaves what it has
                keep(result)
            progress.update(task, advance=1, description=result["name"])
            console.print(line(result), soft_wrap=True)
    return results


def keep(result: dict[str, Any]) -> None:
    """Put a result into the record, in place of an earlier one of its case; each has its own date."""
    path = RESULTS / "corpus.json"
    known = {old["name"]: old for old in json.loads(path.read_text())["cases"]} if path.exists() else {}
    known[result["name"]] = {"date": date.today().isoformat(),
                             **{key: anonymous(value) for key, value in result.items()}}
    cases = [known[name] for name in sorted(known)]
    record = {**describe(), "packages": versions({old["package"] for old in cases}), "counts": counts(cases),
              "cases": cases}
    path.write_text(json.dumps(record, indent=1) + "\n")


def alone(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Return what a worker tells of a case, or how the worker ended."""
    command = [sys.executable, "-m", "bench.corpus.worker", case.name, *(["--plain"] if options.plain else [])]
    about = {"name": case.name, "package": case.package}
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=options.limit, check=False)
    except subprocess.TimeoutExpired:
        return {**about, "status": "crashed", "words": f"no end in {options.limit:g} s"}
    try:
        return {**about, **json.loads(ended.stdout)}
    except json.JSONDecodeError:
        last = (ended.stderr.strip().splitlines() or [""])[-1]
        return {**about, "status": "crashed", "words": f"the process ended with {ended.returncode}: {last}"}


def line(result: dict[str, Any]) -> Text:
    """Return what is said of a case while others still run."""
    status, text = result["status"], Text()
    text.append(f"{status:<8}", STYLES[status])
    text.append(f" {result['name']:<48}")
    if "compiled" in result:
        text.append(f" first {result['first'] * 1e3:7.1f} ms, one-shot {result['one_shot'] / result['plain']:7.1f} and "
                    f"compiled {result['compiled'] / result['plain']:6.1f} x plain", "dim")
    if "never_compiled" in result:
        text.append(f" never compiled: {headline(result['never_compiled'])}")
    if "words" in result:
        text.append(f" {result.get('how', '')} {headline(result['words'])}")
    return text


def anonymous(value: Any) -> Any:
    """Return a text without the folders of this machine."""
    return re.sub(r"/[^\s:]*/(?=site-packages/|bench/)", "", value) if isinstance(value, str) else value


def headline(words: str) -> str:
    """Return the beginning of an error's text."""
    return " ".join(words.split())[:200]


def show(results: Sequence[dict[str, Any]], console: Console) -> None:
    """Print refusals and failures by their words, a row for each package, and the sum."""
    for status in ("broken", "wrong", "crashed", "refused"):
        for result in results:
            if result["status"] == status:
                console.print(Text(f"\n{status}: {result['name']} {result.get('how', '')}", STYLES[status]),
                              Text(result["words"]), sep="\n")
    statuses = [status for status in STYLES if any(result["status"] == status for result in results)]
    table = Table("package", *statuses)
    for package in dict.fromkeys(result["package"] for result in results):
        tally = counts(result for result in results if result["package"] == package)
        table.add_row(package, *(str(tally.get(status, "")) for status in statuses))
    tally = counts(results)
    table.add_section()
    table.add_row(f"{len(results)} cases", *(str(tally[status]) for status in statuses))
    right = tally.get("works", 0) + tally.get("slow", 0)
    console.print(table, f"{right} of {len(results)} work ({right / max(len(results), 1):.1%})", FOOTNOTE, sep="\n")


def counts(results: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return how many cases have each status."""
    return dict(Counter(result["status"] for result in results))


def versions(packages: set[str]) -> dict[str, str]:
    """Return the version of each package that takes part."""
    found = {}
    for package in sorted(packages - {"script"}):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


if __name__ == "__main__":
    sys.exit(main())
