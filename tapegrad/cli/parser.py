"""The parser, made from the table of commands, and the entry point."""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import NoReturn

import tapegrad
from tapegrad.cli import compute, coverage, debug, doctor, look
from tapegrad.cli.completion import COMPLETION
from tapegrad.cli.failure import Disagreement, Failure, one_line

# All commands, in the order of the help.
COMMANDS = (
    compute.GRAD, look.SHOW, compute.TRACE, debug.STEP, debug.PROFILE, debug.EXPLAIN, debug.FIND, compute.CHECK,
    look.SAVE, compute.PLAY, look.EXPORT, look.DIFF, coverage.COVERAGE, doctor.DOCTOR, COMPLETION,
)

EXAMPLES = """\
examples:
  tapegrad grad "a / (a + b*b)" a=2 b=3
  tapegrad show pkg.mod:function 2.0 "[1, 2, 3]" --grad
  tapegrad save pkg.mod:function 2.0 3.0 -o f.tape
  tapegrad play f.tape 4.0 5.0
  tapegrad show --help
"""

PROGRAMS = """\
What is run is an expression, its variables given as name=value (np, math, and NumPy's functions by bare name can
be used), a function pkg.mod:function or file.py:function, its arguments in order or by name, or a saved tape; modules
are looked for in the current directory too. Values are Python literals or expressions of NumPy's (np.pi/4); a list
becomes an array of floats.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status: 0, 1 if a check fails, 2 after one line on standard error."""
    verbose = False
    try:
        options = make_parser().parse_args(guard_dashes(sys.argv[1:] if argv is None else argv))
        verbose = options.traceback
        options.command(options)
        sys.stdout.flush()
    except SystemExit as done:  # argparse, after --help and --version
        return int(done.code or 0)
    except BrokenPipeError:  # tapegrad show ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("tapegrad: interrupted", file=sys.stderr)
        return 130
    except Exception as err:  # the user's function may raise anything
        if verbose:
            traceback.print_exc()
        print(f"tapegrad: {one_line(err)}", file=sys.stderr)
        return 1 if isinstance(err, Disagreement) else 2
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        slip = re.search(r"argument command: invalid choice: '([^']*)'", message)
        if slip:
            like = get_close_matches(slip[1], [command.name for command in COMMANDS], 1)
            message = f"there is no command {slip[1]!r}" + (f"; did you mean {like[0]!r}?" if like else "")
        raise Failure(f"{message} (see {self.prog} --help)")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser("tapegrad", description=tapegrad.__doc__, epilog=f"{EXAMPLES}\n{PROGRAMS}",
                     # Python 3.13 would take 16
                     formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=14))
    parser.add_argument("--version", action="version", version=f"tapegrad {tapegrad.__version__}")
    parser.set_defaults(parser=parser)  # for the completion command
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in COMMANDS:
        about = f"{command.summary[0].upper()}{command.summary[1:]}."
        sub = commands.add_parser(command.name, help=command.summary,
                                  description="\n\n".join(filter(None, [about, command.details])),
                                  epilog=f"examples:\n{command.examples}"
                                  + (f"\n{PROGRAMS}" if "pkg.mod:" in command.examples else ""),
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
        command.arguments(sub)
        sub.add_argument("--traceback", action="store_true", help="print the traceback of an error too")
        sub.set_defaults(command=command.run)
    return parser


def guard_dashes(argv: Sequence[str]) -> list[str]:
    """Prefix `-x*x` and `-1e-3` with a blank, so that they are no options; all options but -h and -o begin with --."""
    return [f" {arg}" if re.match(r"-(?!-|[ho]$)", arg) else arg for arg in argv]
