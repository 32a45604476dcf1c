"""python -m bench.drawn: of lists of functions drawn from public packages before any was tried, which are right."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from datetime import date
from typing import Any

from bench.corpus.__main__ import anonymous, counts, headline, versions
from bench.corpus.case import CASES
from bench.machine import describe
from bench.options import RESULTS
from bench.team import ROOT

CALLS = 8  # of a compiled gradient, each with other numbers


def main(argv: Sequence[str] | None = None) -> int:
    """Run each case of a list in a process of its own; with `--save`, keep the outcomes under a title."""
    parser = argparse.ArgumentParser(prog="python -m bench.drawn", description=__doc__)
    parser.add_argument("list", help="a module of bench/drawn: first, second, third, fourth, fifth, sixth")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART", help="cases whose name holds one of these")
    parser.add_argument("--limit", type=float, default=100.0, metavar="S", help="seconds that a case has (100)")
    parser.add_argument("--plain", action="store_true", help="run the programs alone, without derivatives")
    parser.add_argument("--save", metavar="TITLE", help="write into bench/results/drawn_LIST.json, under this title")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    importlib.import_module(f"bench.drawn.{options.list}")
    if options.case is not None:
        from bench.corpus.worker import outcome
        from bench.worker import speaker
        tell = speaker()
        warnings.simplefilter("ignore")
        tell(outcome(CASES[options.case], options.plain, CALLS))
        return 0
    results = [alone(name, options) for name in CASES if any(part in name for part in options.only)]
    right = sum(result["status"] in ("works", "slow") for result in results)
    print(f"{right} of {len(results)} are right once and compiled ({right / max(len(results), 1):.0%}): "
          f"{counts(results)}")
    if options.save is not None:
        keep(options, results)
    return 0


def alone(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a case, print its outcome, and return that."""
    command = [sys.executable, "-m", "bench.drawn", options.list, "--case", name,
               *(["--plain"] if options.plain else [])]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=options.limit, check=False)
        found = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        found = {"status": "crashed", "words": f"no end in {options.limit:g} s"}
    except json.JSONDecodeError:
        found = {"status": "crashed", "words": f"the process ended with {ended.returncode}: {ended.stderr[-300:]}"}
    words = headline(f"{found.get('how', '')} {found.get('words', '')}")
    print(f"{found['status']:<8} {name:<44} {words}", flush=True)
    return {"name": name, **{key: anonymous(value) for key, value in found.items()}}


def keep(options: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """Write the outcomes into the record of the list; the first run's stay beside later ones."""
    path = RESULTS / f"drawn_{options.list}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    runs = record.get("runs", {})
    known = {old["name"]: old for old in runs.get(options.save, {}).get("cases", [])}
    ran = [result["name"] for result in results]
    whole = {**known, **{result["name"]: result for result in results}}
    results = [result for name, result in whole.items() if name in CASES]
    right = sum(result["status"] in ("works", "slow") for result in results)
    runs[options.save] = {"date": date.today().isoformat(), "right": right, "of": len(results),
                          "counts": counts(results), "cases": results}
    packages = {**record.get("packages", {}), **versions({CASES[name].package for name in ran})}
    path.write_text(json.dumps({**describe(), "packages": packages, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
