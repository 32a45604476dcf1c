"""Command: a command of the command line, and the arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.cli.program import Program, literal, load
from tapegrad.show import FORMATS, GROUPS
from tapegrad.tape.tape import Tape
from tapegrad.trace.tracer import trace
from tapegrad.transforms.grad import gradtape


class Command(NamedTuple):
    """A command: its name, summary, examples, arguments and function."""

    name: str
    summary: str
    examples: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    details: str = ""


def program_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the program to run, and its arguments."""
    parser.add_argument("what", help="an expression, pkg.mod:function, or a saved tape (- for standard input)")
    parser.add_argument("args", nargs="*", metavar="value", help="name=value, or a value")
    parser.add_argument("--with", dest="known", action="append", metavar="pkg.mod:name",
                        help="a function or class that a saved tape uses")


def format_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for printing a tape, as in `Tape.show`."""
    parser.add_argument("--format", choices=FORMATS, help="table on a terminal, else plain")
    parser.add_argument("--group", choices=GROUPS, help="a heading above each line or call")
    parser.add_argument("--width", type=int, metavar="n",
                        help="characters to a line; the terminal's, or as many as it takes")
    parser.add_argument("--no-guards", dest="guards", action="store_false", help="leave out guards")


def seed_argument(parser: argparse.ArgumentParser) -> None:
    """Add the cotangent of the output."""
    parser.add_argument("--seed", metavar="value",
                        help="the cotangent of the output, needed where it is no real scalar")


def program_of(options: argparse.Namespace) -> Program:
    """Return the program to run."""
    return load(options.what, options.args, options.known)


def seed_of(options: argparse.Namespace) -> Any:
    """Return the seed among the options, 1 by default."""
    return 1 if options.seed is None else literal(options.seed, "--seed")


def primal_of(program: Program) -> Tape:
    """Return the tape of a program, or the saved tape."""
    return program.tape if program.tape is not None else trace(program.fn, *program.args, **program.kwargs)[1]


def gradient_of(program: Program, seed: Any) -> Tape:
    """Return the gradient tape of a program."""
    if program.tape is not None:
        return gradtape(program.tape, seed=seed)
    return gradtape(program.fn, *program.args, seed=seed, **program.kwargs)
