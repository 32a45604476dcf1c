"""The command line's options, and what goes together."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.first import key_value
from bench.peers import PEERS
from bench.problems import ALL, PROBLEMS
from bench.problems.problem import Problem

RESULTS = Path(__file__).parent / "results"

DESCRIPTION = """\
Gradients by tapegrad and by its peers, side by side.

Each peer runs in a process of its own. It computes its first gradient alone; then the peers take turns, and medians
are compared. Ratios are to the best peer. All gradients must agree, or the exit status is 1.
Six problems are measured in three more forms: `rk4 (closure)` and `rk4 (method)` have the data inside, `rk4 (arrays)`
has loops that make small arrays or fill large ones.
Memory is what a process has beyond its libraries and data, at the peak of gradients.
"""

EXAMPLES = """\
examples:
  python -m bench                                          all problems, on made data
  python -m bench gmm ba lstm --data ../shared/data/adbench    on the published data that are in a folder
  python -m bench gmm --data FOLDER/gmm_d2_K5.txt --save    on one file; the result goes to bench/results/gmm.json
  python -m bench rk4 "rk4 (method)" --peers c++ "tapegrad compiled" --plot rk4.svg      against C++, in two forms
  python -m bench elementwise --size n=100000 --peers handwritten torch "tapegrad compiled"
  python -m bench recurrence --sweep --million             the time of one recorded operation, at growing sizes
  python -m bench filling --sweep                          the time of filling one element
  python -m bench.first lstm "tapegrad grad"               one first call, alone
"""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; exit with status 2 where they do not go together."""
    parser = argument_parser()
    options = parser.parse_intermixed_args(argv)
    for name in options.names:
        if name not in ALL:
            parser.error(f"no problem is called {name}: there are {', '.join(ALL)}")
    options.problems = [ALL[name] for name in options.names or ALL]
    options.peers = options.peers or [name for name, peer in PEERS.items() if options.replay or not peer.optional]
    for option, least in (("repeats", 1), ("cores", 1), ("limit", 0)):
        if getattr(options, option) is not None and getattr(options, option) < least:
            parser.error(f"--{option} must be at least {least}")
    if options.cores and not hasattr(os, "sched_setaffinity"):
        parser.error("--cores: this system cannot limit them")
    if options.plot and options.sweep:
        parser.error("--plot excludes --sweep")
    if options.million and not options.sweep:
        parser.error("--million needs --sweep")
    one = options.problems[0] if len(options.problems) == 1 else None
    if complaint := _data(options, one) or (options.sweep and _sweep(options, one)):
        parser.error(complaint)
    return options


def _data(options: argparse.Namespace, one: Problem | None) -> str:
    """Say what is wrong with --size and --data."""
    if options.data is not None and not options.data.exists():
        return f"--data: there is no {options.data}"
    if options.data is not None and options.data.is_file() and (one is None or one.read is None):
        return "--data with a file needs one problem that reads a file"
    if not options.size:
        return ""
    if one is None or options.data is not None or options.sweep:
        return "--size needs one problem, and excludes --data and --sweep"
    unknown = {key for key, _ in options.size} - one.default.keys()
    sizes = ", ".join(one.default) or "nothing"
    return f"{one.name} has the sizes {sizes}, and no {', '.join(sorted(unknown))}" if unknown else ""


def _sweep(options: argparse.Namespace, one: Problem | None) -> str:
    """Say what is wrong with --sweep."""
    if one is None or not one.sweep:
        return f"--sweep needs one of {', '.join(name for name, problem in PROBLEMS.items() if problem.sweep)}"
    return f"{one.name} has no --million" if options.million and one.million is None else ""


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    listed = "\n".join(f"  {name:<20} {summary(problem)}" for name, problem in ALL.items())
    parser = argparse.ArgumentParser(prog="python -m bench", description=DESCRIPTION,
                                     epilog=f"problems:\n{listed}\n\n{EXAMPLES}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PROBLEM", help="all if there is none")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), metavar="PEER",
                        help=f"of {', '.join(PEERS)}; the gradients are compared with the first one's")
    parser.add_argument("--replay", action="store_true",
                        help="also the replay of tapegrad's gradient tape, and of the flat one")
    parser.add_argument("--data", type=Path, metavar="FOLDER",
                        help="published data (or a file of them); what it does not have is made")
    parser.add_argument("--size", nargs="+", type=key_value, default=[], metavar="KEY=N",
                        help="the size of the data to make, for one problem")
    parser.add_argument("--repeats", type=int, metavar="N", help="measurements of each peer (15), fewer of a slow one")
    parser.add_argument("--minima", action="store_true", help="compare minima instead of medians, on a busy machine")
    parser.add_argument("--cores", type=int, metavar="N",
                        help="use no more cores, and threads, than this (not everywhere)")
    parser.add_argument("--limit", type=float, default=120.0, metavar="S",
                        help="seconds that a peer has for its first gradient (120)")
    parser.add_argument("--no-first", action="store_true", help="without the table of first calls")
    parser.add_argument("--no-memory", action="store_true", help="without the table of memory")
    parser.add_argument("--sweep", action="store_true",
                        help="one-shot gradients at growing sizes instead, in this process")
    parser.add_argument("--million", action="store_true", help="with --sweep: also with a million recorded operations")
    parser.add_argument("--json", type=Path, metavar="PATH",
                        help="write all results, and what they depend on, to a file")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw all ratios to C++, or to the best peer")
    parser.add_argument("--save", type=Path, nargs="?", const=RESULTS, metavar="FOLDER",
                        help="write a file for each problem (to bench/results)")
    return parser


def summary(problem: Problem) -> str:
    """Return the first sentence on a problem's module."""
    text = sys.modules[problem.objective.__module__].__doc__ or ""
    return text.partition("\n")[0].rstrip(".")
