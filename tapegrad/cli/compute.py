"""Commands that compute: trace, grad, play, check."""

from __future__ import annotations

import argparse
from typing import Any

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
from tapegrad.cli.failure import Disagreement, Failure
from tapegrad.cli.look import print_stages, show_program
from tapegrad.cli.output import print_tape, print_values
from tapegrad.cli.program import Program
from tapegrad.numbers.formatting import count_of
from tapegrad.progress import Work
from tapegrad.tape.tape import Tape
from tapegrad.testing import check_grads
from tapegrad.trace.tracer import trace
from tapegrad.transforms.grad import grad
from tapegrad.tree.signature import ValueAndGradients


def run_trace(options: argparse.Namespace) -> None:
    """Print the value, then the tape."""
    program = program_of(options)
    if program.tape is not None:
        raise Failure("a saved tape has been traced: show prints it, play runs it")
    value, tape = trace(program.fn, *program.args, **program.kwargs)
    print_values([("value", value)])
    print()
    print_stages(tape, options) if options.stages else print_tape(tape, options)


def run_grad(options: argparse.Namespace) -> None:
    """Print the value and the gradient by each argument, then the tapes if wanted."""
    program = program_of(options)
    value, gradients = _gradient(program, seed_of(options))
    print_values([("value", value), *_named(program, gradients, captured=True)])
    if options.tape or options.stages:
        print()
        options.grad = True
        show_program(program, options)


def _gradient(program: Program, seed: Any) -> Any:
    if program.tape is None:
        return grad(program.fn, *program.args, seed=seed, **program.kwargs)
    tape = program.tape if is_gradient(program.tape) else gradient_of(program, seed)
    return tape.play(*program.args, **program.kwargs)


def _named(program: Program, gradients: Any, captured: bool = False) -> list[tuple[str, Any]]:
    """Return the gradients by arguments, after those by `captured` values if wanted, with the names to print them
    under.
    """
    structure = None if program.tape is None else program.tape.structure
    argnums = None if structure is None else structure.wanted.argnums
    if argnums is None:
        df, *dxs = gradients
        return [*([("df", df)] if captured and df is not None else []),
                *((f"d{name}", dx) for name, dx in zip(program.names, dxs))]
    return [(f"d{program.names[i]}", dx)
            for i, dx in (zip(argnums, gradients) if isinstance(argnums, tuple) else [(argnums, gradients)])]


def is_gradient(tape: Tape) -> bool:
    """Return whether a tape returns a value and a gradient."""
    return isinstance(tape.result.kwargs.get("into"), ValueAndGradients)


def run_play(options: argparse.Namespace) -> None:
    """Print the result of a saved tape for other arguments."""
    program = program_of(options)
    if program.tape is None:
        raise Failure("play runs a saved tape: save writes one")
    with Work("replaying"):
        value = program.tape.play(*program.args, **program.kwargs)
    if is_gradient(program.tape):
        value, gradients = value
        print_values([("value", value), *_named(program, gradients)])
    else:
        print_values([("value", value)])


def run_check(options: argparse.Namespace) -> None:
    """Compare the gradient with central differences; for a saved tape without arguments, print that it is well-formed.
    """
    program = program_of(options)
    if program.tape is not None and not options.args:
        tape = primal_of(program).check()
        print(f"{tape.name}: {count_of(len(tape), 'operation')}, well-formed")
        return
    try:
        check_grads(program.fn, *program.args, order=options.order, **program.kwargs)
    except AssertionError as err:
        raise Disagreement(f"the gradient differs from central differences: {err}") from None
    names = ", ".join(f"d{name}" for name in program.names) or "the gradient"
    print(f"{names}: as central differences" + (", and the gradient's own gradient" if options.order > 1 else ""))


def _stages(parser: argparse.ArgumentParser) -> None:
    program_arguments(parser)
    format_arguments(parser)
    seed_argument(parser)
    parser.add_argument("--stages", action="store_true",
                        help="print the primal tape, the triples, the gradient tape and the flat tape in turn")


def _grad(parser: argparse.ArgumentParser) -> None:
    _stages(parser)
    parser.add_argument("--tape", action="store_true", help="print the gradient tape too")


def _check(parser: argparse.ArgumentParser) -> None:
    program_arguments(parser)
    parser.add_argument("--order", type=int, choices=(1, 2), default=1, help="2 for the gradient's own gradient too")


TRACE = Command("trace", "print the value and the tape of every call", """\
  tapegrad trace "exp(-x*x)" x=0.5 --format compact
  tapegrad trace pkg.mod:function 2.0 "[1, 2, 3]"
""", _stages, run_trace)

GRAD = Command("grad", "print the value and the gradient with respect to each argument", """\
  tapegrad grad "a / (a + b*b)" a=2 b=3
  tapegrad grad "sum(x * sin(x))" "x=[0.0, 0.5, 1.0]" --tape
  tapegrad grad "x * x" "x=[1, 2]" --seed "[1, 0]"
  tapegrad grad saved.tape 4.0 5.0
""", _grad, run_grad)

PLAY = Command("play", "print what a saved tape computes", """\
  tapegrad play saved.tape 4.0 5.0
  tapegrad save "x * x" x=3 | tapegrad play - 4.0
""", program_arguments, run_play, "Without values it is run on those that it was recorded with.")

CHECK = Command("check", "compare a gradient with central differences", """\
  tapegrad check "sin(x) ** 2" x=0.5 --order 2
  tapegrad check pkg.mod:function 2.0 "[1, 2, 3]"
  tapegrad check saved.tape
""", _check, run_check, "The status is 1 where they differ. A saved tape is read, and found well-formed.")
