"""Commands that print and write tapes: show, diff, save, export."""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.cli.command import (
    Command,
    format_arguments,
    gradient_of,
    primal_of,
    program_arguments,
    program_of,
    seed_argument,
    seed_of,
)
from tapegrad.cli.failure import Failure
from tapegrad.cli.output import print_found, print_tape, write
from tapegrad.cli.program import Program, load
from tapegrad.progress import Work
from tapegrad.store.format import MAGIC, VERSION
from tapegrad.store.write import Writer, to_bytes
from tapegrad.tape.tape import Tape
from tapegrad.trace.checkpoint import checkpoint
from tapegrad.trace.tracer import trace
from tapegrad.transforms.forward import forwardtape
from tapegrad.transforms.forward_diff import forwarddiff
from tapegrad.transforms.grad import gradtape
from tapegrad.transforms.primitivize import primitivize
from tapegrad.transforms.rewrite import rewrite
from tapegrad.transforms.taylor import taylortape
from tapegrad.transforms.vmap import batchtape

CALLS: dict[str, Callable[..., Any]] = {"checkpoint": checkpoint, "forwarddiff": forwarddiff}


def run_show(options: argparse.Namespace) -> None:
    """Print the tape, or every stage."""
    program = program_of(options)
    if program.tape is not None and options.args:
        raise Failure("a saved tape is shown as it was recorded: pass no values; play runs it with other values")
    show_program(program, options)


def show_program(program: Program, options: argparse.Namespace) -> None:
    """Print the primal tape, that of a transform, the gradient tape, or every stage."""
    name = getattr(options, "transform", None)
    if name is not None:
        if options.grad or options.stages:
            raise Failure("--transform applies to the program itself: leave out --grad and --stages")
        tape = transformed(program, name)
        return print_tape(tape, options)
    tape = gradient_of(program, seed_of(options)) if options.grad and not options.stages else primal_of(program)
    print_stages(tape, options) if options.stages else print_tape(tape, options)


def transformed(program: Program, name: str) -> Tape:
    """Return the tape of a batch of arguments, of value and tangent, of coefficients, or of a call with a subtape."""
    if name == "forward":
        return forwardtape(program.fn if program.tape is None else program.tape, *program.args, **program.kwargs)
    if program.tape is not None:
        raise Failure(f"a saved tape contains one call: --transform {name} needs a function or an expression")
    if name == "taylor":
        return taylortape(program.fn, *program.args)
    if name in CALLS:
        return trace(CALLS[name](program.fn), *program.args, **program.kwargs)[1]
    args: Sequence[Any] = program.args
    if all(isinstance(x, (int, float, complex)) for x in args):  # a number becomes a batch of two equal ones
        args = [np.array([x, x]) for x in args]
    return batchtape(program.fn, *args, **program.kwargs)


def print_stages(tape: Tape, options: argparse.Namespace) -> None:
    """Print a primal tape and the tapes derived from it."""
    gradient = gradtape(tape, seed=seed_of(options))
    stages = [("primal tape: every call, as it was made", tape),
              ("triples: each call with its pullback", rewrite(tape)),
              ("gradient tape: the reverse sweep appended", gradient),
              ("flat tape: rules and pullbacks dissolved into calls", primitivize(gradient))]
    for number, (title, stage) in enumerate(stages, 1):
        title = f"{number}. {title}"
        print(f"{title}\n{'-' * len(title)}" if number == 1 else f"\n{title}\n{'-' * len(title)}")
        print_tape(stage, options)


def chosen(options: argparse.Namespace) -> Tape:
    """Return the tape that the options select: the primal one, the gradient's, or the flat one."""
    program = program_of(options)
    if not (options.grad or options.flat):
        return primal_of(program)
    gradient = gradient_of(program, seed_of(options))
    return primitivize(gradient) if options.flat else gradient


def run_save(options: argparse.Namespace) -> None:
    """Write the tape to a file for `load`."""
    tape = chosen(options)
    with Work("writing"):
        if options.output.strip() == "-":
            write(b"".join(to_bytes(tape, not options.small)), "-")
        else:
            tape.save(options.output, values=not options.small)


def run_export(options: argparse.Namespace) -> None:
    """Write the tape as source, a picture or data."""
    tape = chosen(options)
    with Work("writing"):
        content = exports()[options.to](tape)
    write(content, options.output)


def exports() -> dict[str, Callable[[Tape], Any]]:
    """Return the functions that export tapes, by format."""
    return {"plain": Tape.format, "json": _json, "python": Tape.to_python, "dot": Tape.to_dot, "svg": Tape.to_svg,
            "html": Tape.to_html, "c": lambda tape: tape.to_c().source, "header": lambda tape: tape.to_c().header}


def _json(tape: Tape) -> str:
    """Return the columns of the file format, and the bytes of the arrays."""
    writer = Writer(True)
    columns = writer.tape(tape.check())
    found = {"format": f"{MAGIC} {VERSION}", **columns, "bytes": base64.b64encode(b"".join(writer.pieces)).decode()}
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(column)}" for name, column in found.items()) + "\n}\n"


def run_diff(options: argparse.Namespace) -> None:
    """Print the differences between two saved tapes."""
    first, second = (load(name, [], options.known).tape for name in (options.first, options.second))
    if first is None or second is None:
        raise Failure("diff compares two saved tapes: save writes them")
    print_found(first.diff(second))


def _show(parser: argparse.ArgumentParser) -> None:
    program_arguments(parser)
    format_arguments(parser)
    seed_argument(parser)
    parser.add_argument("--grad", action="store_true", help="the gradient tape")
    parser.add_argument("--transform", choices=("batch", "forward", "taylor", *CALLS),
                        help="each operation for a batch, with its tangent, with its coefficients; or all as one of "
                             "checkpoint or forwarddiff")
    parser.add_argument("--stages", action="store_true",
                        help="print the primal tape, the triples, the gradient tape and the flat tape in turn")


def _chosen(parser: argparse.ArgumentParser) -> None:
    program_arguments(parser)
    seed_argument(parser)
    parser.add_argument("--grad", action="store_true", help="the gradient tape")
    parser.add_argument("--flat", action="store_true",
                        help="the gradient tape, rules and pullbacks dissolved into calls")


def _save(parser: argparse.ArgumentParser) -> None:
    _chosen(parser)
    parser.add_argument("--small", action="store_true", help="leave out the arrays that a replay computes again")
    parser.add_argument("-o", dest="output", default="-", metavar="file", help="where to; - is standard output")


def _export(parser: argparse.ArgumentParser) -> None:
    _chosen(parser)
    parser.add_argument("--to", choices=tuple(exports()), required=True, help="what to write")
    parser.add_argument("-o", dest="output", default="-", metavar="file", help="where to; - is standard output")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", help="a saved tape")
    parser.add_argument("second", help="another; one of the two may be -, for standard input")
    parser.add_argument("--with", dest="known", action="append", metavar="pkg.mod:name",
                        help="a function or class that a saved tape uses")


SHOW = Command("show", "print the tape, or with --grad the gradient's", """\
  tapegrad show pkg.mod:function 2.0 "[1, 2, 3]" --grad
  tapegrad show "x*x + x" x=3 --stages
  tapegrad show "sin(x) * x" x="[1.0, 2.0, 3.0]" --transform batch
  tapegrad show "sin(x) * x" x=2 --transform taylor
  tapegrad show "sin(x) * x" x=2 --transform checkpoint
  tapegrad show saved.tape
  tapegrad show - < saved.tape
""", _show, run_show)

SAVE = Command("save", "write the tape to a file", """\
  tapegrad save pkg.mod:function 2.0 3.0 -o f.tape
  tapegrad save "x * sin(x)" x=0.5 --flat --small -o df.tape
  tapegrad save "x * x" x=3 | tapegrad play - 4.0
""", _save, run_save, "tg.load and the other commands read it.")

_EXPORTED = {
    "plain": '"x*x + x" x=3 --to plain -o -', "json": "pkg.mod:function 2.0 3.0 --grad --to json -o f.json",
    "python": "pkg.mod:function 2.0 3.0 --flat --to python -o gradient.py",
    "dot": "pkg.mod:function 2.0 3.0 --to dot -o f.dot",
    "svg": "pkg.mod:function 2.0 3.0 --grad --to svg -o f.svg", "html": "saved.tape --to html -o f.html",
    "c": "pkg.mod:function 2.0 3.0 --flat --to c -o gradient.c",
    "header": "pkg.mod:function 2.0 3.0 --flat --to header -o gradient.h",
}

EXPORT = Command("export", "write the tape as source, a picture or data",
                 "".join(f"  tapegrad export {_EXPORTED[name]}\n" for name in exports()), _export, run_export)

DIFF = Command("diff", "print what differs between two saved tapes", """\
  tapegrad diff before.tape after.tape
  tapegrad save "x * x" x=3 | tapegrad diff - saved.tape
""", _diff, run_diff)
