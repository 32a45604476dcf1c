"""The command line: trace, differentiate, show and map from a shell."""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib
import inspect
import keyword
import linecache
import math
import operator
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn

import numpy as np

import tapegrad
from tapegrad.errors import INTERNAL, Location, TapeError
from tapegrad.grad import grad, gradtape
from tapegrad.passes.primitivize import primitivize
from tapegrad.rewrite import rewrite
from tapegrad.show.coverage import KINDS, SPACES, listing, overview
from tapegrad.tape import Tape
from tapegrad.trace import trace

EXPRESSION = "<expression>"
EXAMPLES = """\
examples:
  tapegrad grad "a / (a + b*b)" a=2 b=3
  tapegrad grad "sum(x * sin(x))" "x=[0.0, 0.5, 1.0]" --tape
  tapegrad trace "exp(-x*x)" x=0.5 --format compact
  tapegrad show pkg.mod:function 2.0 "[1, 2, 3]" --grad
  tapegrad show "x*x + x" x=3 --stages

The argument is an expression, its variables given as name=value (np, math, and NumPy's functions by bare name
can be used), or a function pkg.mod:function, its arguments in order or by name; modules are looked for in the
current directory too. Values are Python literals; a list becomes an array of floats.
"""


class Failure(Exception):
    """What the user asked for cannot be done; the message says why, on one line."""


class Program(NamedTuple):
    """A function with its arguments, and the names under which gradients are printed."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: list[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status: 0, or 2 after one line on standard error."""
    verbose = False
    try:
        options = _parser().parse_args(_guard_dashes(sys.argv[1:] if argv is None else argv))
        verbose = options.traceback
        options.command(options)
        sys.stdout.flush()
    except SystemExit as done:  # argparse, after --help and --version
        return int(done.code or 0)
    except BrokenPipeError:  # tapegrad show ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as err:  # the user's function may raise anything
        if verbose:
            traceback.print_exc()
        print(f"tapegrad: {explain(err)}", file=sys.stderr)
        return 2
    return 0


# -- the commands


def run_trace(options: argparse.Namespace) -> None:
    """Print the value, then the tape."""
    program = load(options.what, options.args)
    value, tape = trace(program.fn, *program.args, **program.kwargs)
    _print_values([("value", value)])
    print()
    _print_stages(tape, options) if options.stages else _print_tape(tape, options.format)


def run_grad(options: argparse.Namespace) -> None:
    """Print the value and the gradient by each argument, then what was asked for besides."""
    program = load(options.what, options.args)
    value, (df, *dxs) = grad(program.fn, *program.args, seed=_seed(options), **program.kwargs)
    captured = [] if df is None else [("df", df)]
    _print_values([("value", value), *captured, *((f"d{name}", dx) for name, dx in zip(program.names, dxs))])
    if options.tape or options.stages:
        print()
        options.grad = True
        _show(program, options)


def run_show(options: argparse.Namespace) -> None:
    """Print the tape, or all of them."""
    _show(load(options.what, options.args), options)


def run_coverage(options: argparse.Namespace) -> None:
    """Print the map of a namespace, or how many names of each kind all of them have."""
    sheet = listing(options.namespace) if options.namespace else overview()
    _print(sheet, sheet.format, options.format)


def _show(program: Program, options: argparse.Namespace) -> None:
    if options.grad and not options.stages:
        _print_tape(gradtape(program.fn, *program.args, seed=_seed(options), **program.kwargs), options.format)
        return
    _, tape = trace(program.fn, *program.args, **program.kwargs)
    _print_stages(tape, options) if options.stages else _print_tape(tape, options.format)


def _seed(options: argparse.Namespace) -> Any:
    return 1 if options.seed is None else literal(options.seed, "--seed")


# -- printing


def _print_tape(tape: Tape, style: str | None) -> None:
    _print(tape, functools.partial(tape.format, style or "plain"), style)


def _print(shown: Any, text: Callable[[int | None], str], style: str | None) -> None:
    """Print as a table on a terminal, as text of the terminal's width or of any elsewhere."""
    terminal = sys.stdout.isatty()
    if style == "rich" or (style is None and terminal):
        from rich.console import Console
        Console().print(shown)
    else:
        print(text(shutil.get_terminal_size().columns if terminal else None))


def _print_stages(tape: Tape, options: argparse.Namespace) -> None:
    gradient = gradtape(tape, seed=_seed(options))
    stages = [("primal tape: every call, as it was made", tape),
              ("triples: each call with its pullback", rewrite(tape)),
              ("gradient tape: the reverse sweep appended", gradient),
              ("flat tape: rules and pullbacks dissolved into calls", primitivize(gradient))]
    for number, (title, stage) in enumerate(stages, 1):
        title = f"{number}. {title}"
        print(f"{title}\n{'-' * len(title)}" if number == 1 else f"\n{title}\n{'-' * len(title)}")
        _print_tape(stage, options.format)


def _print_values(rows: list[tuple[str, Any]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}} = " + _text(value).replace("\n", "\n" + " " * (width + 3)))


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ")
    with np.printoptions(legacy="1.25"):  # a NumPy scalar in a structure prints as a number
        return repr(value.item() if isinstance(value, np.generic) else value)


# -- what is to be run


def load(what: str, given: list[str]) -> Program:
    """Return the program that an expression, or the name of a function, and its arguments mean."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=") if re.match(r"\s*[^\W\d]\w*\s*=(?!=)", text) else ("", "", text)
        name = name.strip()
        if keyword.iskeyword(name) or name in named:
            raise Failure(f"the argument {name!r} is given twice" if name in named else f"{name!r} cannot be the name of an argument")
        if name:
            named[name] = literal(value, name)
        elif named:
            raise Failure(f"the value {text} stands after a named argument; give it before, or by name")
        else:
            positional.append(literal(text, f"argument {len(positional) + 1}"))
    if re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", what.strip()):
        return _bind(find(what.strip()), what.strip(), positional, named)
    if positional:
        raise Failure(f"an expression takes its arguments by name, and {given[0].strip()!r} has none: name={given[0].strip()}")
    return Program(expression(what.strip(), list(named)), tuple(named.values()), {}, list(named))


def literal(text: str, name: str) -> Any:
    """Read a Python literal, lists of numbers as arrays of floats.

    >>> literal("[1, 2]", "x")
    array([1., 2.])
    """
    try:
        return _arrays(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Failure(f"{name}: {text.strip()!r} is no value: give a Python literal, such as 2.0, [1, 2], (1.0, [2.0]) or \"'text'\"") from None


def _arrays(value: Any) -> Any:
    if isinstance(value, list):
        array = np.array(value)  # ValueError where it is ragged
        if array.dtype.kind in "biu":
            return array.astype(float)
        return array if array.dtype.kind in "fc" else [_arrays(part) for part in value]
    if isinstance(value, tuple):
        return tuple(map(_arrays, value))
    if isinstance(value, dict):
        return {key: _arrays(part) for key, part in value.items()}
    return value


def expression(text: str, names: list[str]) -> Callable[..., Any]:
    """Make a function of an expression: its arguments are `names`, the other names NumPy's and Python's.

    >>> expression("a * b + pi - pi", ["a", "b"])(2.0, 3.0)
    6.0
    """
    try:
        body = ast.parse(text, EXPRESSION, "eval").body
        module = ast.parse(f"def f({', '.join(names)}): return 0", EXPRESSION)
        module.body[0].body[0].value = body  # type: ignore[attr-defined]
        code = compile(module, EXPRESSION, "exec")
    except (SyntaxError, ValueError) as err:
        column = f", at column {err.offset}" if isinstance(err, SyntaxError) and err.offset else ""
        raise Failure(f"the expression {text!r} does not parse: {getattr(err, 'msg', err)}{column}") from None
    namespace = _namespace()
    found = [node for node in ast.walk(body) if isinstance(node, (ast.Name, ast.arg))]
    bound = {node.arg if isinstance(node, ast.arg) else node.id for node in found
             if isinstance(node, ast.arg) or not isinstance(node.ctx, ast.Load)} | {*names, *namespace, *vars(builtins)}
    free = [node.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)) if isinstance(node, ast.Name)]
    unknown = list(dict.fromkeys(name for name in free if name not in bound))
    if unknown:
        raise Failure(f"{' and '.join(unknown)} in {text!r} {'has' if len(unknown) == 1 else 'have'} no value: "
                      f"add {' '.join(f'{name}=1.0' for name in unknown)} (a function in a file is pkg.mod:function)")
    linecache.cache[EXPRESSION] = len(text), None, [f"{line}\n" for line in text.splitlines()], EXPRESSION
    return FunctionType(next(const for const in code.co_consts if isinstance(const, CodeType)), namespace, "f")


def _namespace() -> dict[str, Any]:
    """Return NumPy's functions by bare name, but Python's abs, max, min …, which mean the same for a number."""
    functions = {name: getattr(np, name) for name in np.__all__ if not hasattr(builtins, name)}
    functions = {name: fn for name, fn in functions.items() if callable(fn) and not isinstance(fn, type)}
    return {**functions, "sum": _sum, "np": np, "math": math, "pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, "__name__": EXPRESSION}


def _sum(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Add up an array as NumPy does, anything else as Python does."""
    return (np.sum if hasattr(x, "shape") else builtins.sum)(x, *args, **kwargs)


def find(what: str) -> Callable[..., Any]:
    """Import the function that `pkg.mod:function` names."""
    name, _, path = what.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as err:
        if err.name and (name == err.name or name.startswith(f"{err.name}.")):
            raise Failure(f"there is no module {name!r}, neither installed nor in the current directory") from None
        raise Failure(f"{name} cannot be imported: {explain(err)}") from err
    except Exception as err:
        raise Failure(f"{name} cannot be imported: {explain(err)}") from err
    try:
        fn = operator.attrgetter(path)(module)
    except AttributeError:
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        like = get_close_matches(path, there, 1) or there[:5]
        raise Failure(f"{name} has no function {path!r}" + (f"; it has {', '.join(like)}" if like else "")) from None
    if not callable(fn):
        raise Failure(f"{what} is no function: it is a {type(fn).__name__}")
    return fn  # type: ignore[no-any-return]


def _bind(fn: Callable[..., Any], what: str, positional: list[Any], named: dict[str, Any]) -> Program:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # written in C: it checks its arguments itself
        return Program(fn, tuple(positional), named, [f"x{i}" for i in range(1, len(positional) + 1)])
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as err:
        raise Failure(f"{what}{signature}: {err}") from None
    names: list[str] = []
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(len(value))]
        else:
            names.append(name)
    return Program(fn, bound.args, bound.kwargs, names)


# -- errors


def explain(err: BaseException) -> str:
    """Say on one line what went wrong, and on which of the user's lines."""
    if isinstance(err, Failure):
        return " ".join(str(err).split())
    if isinstance(err, TapeError):
        parts = [err.what, "" if err.where is None else f"at {_place(err.where)}"]
        parts += [f"try: {err.try_}"] if err.try_ and "\n" not in err.try_ else []
        return " ".join("; ".join(filter(None, parts)).split())
    if isinstance(err, SyntaxError) and err.filename:
        return f"{type(err).__name__}: {err.msg} ({os.path.basename(err.filename)}:{err.lineno})"
    where = _user_line(err)
    message = " ".join(str(err).split())
    return type(err).__name__ + (f": {message}" if message else "") + (f"; at {_place(where)}" if where else "")


def _place(where: Location) -> str:
    return where.short + (f": {where.source}" if where.source else "")


def _user_line(err: BaseException) -> Location | None:
    """Return the innermost line of the traceback that is neither ours nor a library's."""
    where = None
    for frame, line in traceback.walk_tb(err.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if frame.f_code.co_filename not in INTERNAL and package not in _LIBRARIES:
            where = Location(frame.f_code.co_filename, line, frame.f_code.co_name)
    return where


_LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "torch"}


# -- the options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Failure(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    shape = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": EXAMPLES}
    parser = _Parser("tapegrad", description=tapegrad.__doc__, **shape)  # type: ignore[arg-type]
    parser.add_argument("--version", action="version", version=f"tapegrad {tapegrad.__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for name, command, summary in (("trace", run_trace, "print the value and the tape of every call"),
                                   ("grad", run_grad, "print the value and the gradient by each argument"),
                                   ("show", run_show, "print the tape, or with --grad the gradient's")):
        sub = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", **shape)  # type: ignore[arg-type]
        sub.add_argument("what", help="an expression, or pkg.mod:function")
        sub.add_argument("args", nargs="*", metavar="value", help="name=value, or a value")
        sub.add_argument("--format", choices=("plain", "compact", "rich"), help="rich on a terminal, else plain")
        sub.add_argument("--stages", action="store_true", help="print the primal tape, the triples, the gradient tape and the flat tape in turn")
        sub.add_argument("--seed", metavar="value", help="the cotangent of the output, needed where it is no real scalar")
        sub.add_argument("--traceback", action="store_true", help="print the traceback of an error too")
        if name == "grad":
            sub.add_argument("--tape", action="store_true", help="print the gradient tape too")
        if name == "show":
            sub.add_argument("--grad", action="store_true", help="the gradient tape")
        sub.set_defaults(command=command)
    what = "print which functions of NumPy, math and SciPy are differentiable"
    kinds = "\n".join(f"  {kind:<20}{meaning}" for kind, meaning in KINDS.items())
    sub = commands.add_parser("coverage", help=what, formatter_class=argparse.RawDescriptionHelpFormatter,
                              description=f"P{what[1:]}: how many, or with a namespace each of its names, as\n{kinds}")
    sub.add_argument("namespace", nargs="?", choices=tuple(SPACES), help=" ".join(SPACES), metavar="namespace")
    sub.add_argument("--format", choices=("plain", "rich"), help="rich on a terminal, else plain")
    sub.add_argument("--traceback", action="store_true", help="print the traceback of an error too")
    sub.set_defaults(command=run_coverage)
    return parser


def _guard_dashes(argv: Sequence[str]) -> list[str]:
    """Mark `-x*x` and `-1e-3` as no options, with a blank; every option but -h begins with two dashes."""
    return [f" {arg}" if re.match(r"-(?!-|h$)", arg) else arg for arg in argv]
