"""Commands for debugging: explain, find, step, profile."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import tapegrad
from tapegrad.cli.command import (
    Command,
    gradient_of,
    primal_of,
    program_arguments,
    program_of,
    seed_argument,
    seed_of,
)
from tapegrad.cli.output import print_found, write
from tapegrad.tape.tape import Tape

WRONG = ("nan", "inf", "zero-gradient", "large")


def _tape(options: argparse.Namespace) -> tuple[Any, Tape]:
    program = program_of(options)
    return program, gradient_of(program, seed_of(options)) if options.grad else primal_of(program)


def run_explain(options: argparse.Namespace) -> None:
    """Print where the gradient comes from."""
    program = program_of(options)
    found = tapegrad.explain(program.fn, *program.args, seed=seed_of(options), **program.kwargs)
    print_found(found)


def run_find(options: argparse.Namespace) -> None:
    """Print the first operation of the wanted kind."""
    program = program_of(options)
    with np.errstate(all="ignore"):  # NumPy's warnings would only repeat the finding
        found = primal_of(program).find(options.kind, *program.args, **program.kwargs)
    print(f"no value is {options.kind}") if found is None else print_found(found)


def run_step(options: argparse.Namespace) -> None:
    """Play the tape one operation at a time, by commands from the keyboard."""
    program, tape = _tape(options)
    tape.step(*program.args, **program.kwargs).interact()


def run_profile(options: argparse.Namespace) -> None:
    """Print the time of each operation, or write it for speedscope."""
    program, tape = _tape(options)
    found = tape.profile(*program.args, **program.kwargs)
    if options.speedscope is None:
        print_found(found)
    elif options.speedscope.strip() == "-":
        write(found.to_speedscope(), "-")
    else:
        found.to_speedscope(options.speedscope)


def _explain(parser: argparse.ArgumentParser) -> None:
    program_arguments(parser)
    seed_argument(parser)


def _find(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=WRONG, help="what to look for")
    program_arguments(parser)


def _tapes(parser: argparse.ArgumentParser) -> None:
    program_arguments(parser)
    seed_argument(parser)
    parser.add_argument("--grad", action="store_true", help="the gradient tape")


def _profile(parser: argparse.ArgumentParser) -> None:
    _tapes(parser)
    parser.add_argument("--speedscope", metavar="file",
                        help="write JSON for https://www.speedscope.app; - is standard output")


EXPLAIN = Command("explain", "print where a gradient comes from, and what looks wrong about it", """\
  tapegrad explain "sum(where(x > 0, arccos(1 - x), 0))" "x=[0, 1]"
  tapegrad explain pkg.mod:loss 2.0 "[1, 2, 3]"
""", _explain, run_explain)

FIND = Command("find", "print the first operation whose value or gradient is nan, inf, zero or large", """\
  tapegrad find nan pkg.mod:loss 2.0 "[1, 2, 3]"
  tapegrad find zero-gradient saved.tape
""", _find, run_find)

STEP = Command("step", "play the tape one operation at a time", """\
  tapegrad step pkg.mod:function 2.0 3.0
  tapegrad step "x * sin(x)" x=0.5 --grad
""", _tapes, run_step)

PROFILE = Command("profile", "print the time that each line and operation takes", """\
  tapegrad profile pkg.mod:function 2.0 "[1, 2, 3]" --grad
  tapegrad profile saved.tape --speedscope - > profile.json
""", _profile, run_profile)
