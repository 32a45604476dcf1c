"""The command that prints the map of a namespace."""

from __future__ import annotations

import argparse

from tapegrad.cli.command import Command
from tapegrad.cli.output import print_shown
from tapegrad.show.coverage import KINDS, SPACES, listing, overview


def run_coverage(options: argparse.Namespace) -> None:
    """Print the map of a namespace, or the number of names of each kind in every namespace."""
    sheet = listing(options.namespace) if options.namespace else overview()
    print_shown(sheet, sheet.format, options.format)


def _coverage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("namespace", nargs="?", choices=tuple(SPACES), help=" ".join(SPACES), metavar="namespace")
    parser.add_argument("--format", choices=("plain", "table"), help="table on a terminal, else plain")


COVERAGE = Command("coverage", "print which functions of NumPy, math and SciPy are differentiable", """\
  tapegrad coverage
  tapegrad coverage numpy
""", _coverage, run_coverage,
    "How many, or with a namespace each of its names, as\n"
                   + "\n".join(f"  {kind:<20}{meaning}" for kind, meaning in KINDS.items()))
