"""The program to run: an expression, a function of a module, or a saved tape, with its arguments."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import keyword
import linecache
import math
import operator
import os
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from tapegrad.cli.failure import Failure, one_line
from tapegrad.replay.interpreter import recorded
from tapegrad.store.format import MAGIC
from tapegrad.store.read import from_bytes
from tapegrad.tape.tape import Tape
from tapegrad.tree.installed import file_of

EXPRESSION = "<expression>"
NAMED = re.compile(r"(?:[^\W\d][\w.]*|[\w./\\~+-]+\.py):[^\W\d][\w.]*")


class Program(NamedTuple):
    """A function with its arguments, and the names under which gradients are printed; or a saved tape."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: list[str]
    tape: Tape | None = None


def load(what: str, given: list[str], known: list[str] | None = None) -> Program:
    """Return the program for an expression, the name of a function or a saved tape, and for its arguments. `known` are
    the functions and classes, by name, that a saved tape may use.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=") if re.match(r"\s*[^\W\d]\w*\s*=(?!=)", text) else ("", "", text)
        name = name.strip()
        if keyword.iskeyword(name) or name in named:
            raise Failure(f"the argument {name!r} is given twice" if name in named
                          else f"{name!r} cannot be the name of an argument")
        if name:
            named[name] = literal(value, name)
        elif named:
            raise Failure(f"the value {text} follows a named argument; pass it before that, or by name")
        else:
            positional.append(literal(text, f"argument {len(positional) + 1}"))
    if is_saved(what.strip()):
        return _saved(what.strip(), positional, named, known or [])
    if what.strip().endswith(".py"):
        what = only_function(what.strip())
    if NAMED.fullmatch(what.strip()):
        return _bind(find(what.strip()), what.strip(), positional, named)
    if positional:
        raise Failure(f"an expression takes its arguments by name, and {given[0].strip()!r} has none: "
                      f"name={given[0].strip()}")
    return Program(expression(what.strip(), list(named)), tuple(named.values()), {}, list(named))


def is_saved(what: str) -> bool:
    """Return whether text names a saved tape: `-`, a file that begins as one, or any name that ends in .tape."""
    if what == "-" or (what.endswith(".tape") and re.fullmatch(r"[^()*+<>=]+", what)):
        return True
    try:
        with open(what, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC.encode()
    except (OSError, ValueError):  # no file, or no valid file name
        return False


def _saved(what: str, positional: list[Any], named: dict[str, Any], known: list[str]) -> Program:
    """Read a saved tape from a file or from standard input."""
    if what != "-" and not Path(what).is_file():
        raise Failure(f"there is no file {what!r}")
    content = sys.stdin.buffer.read() if what == "-" else Path(what).read_bytes()
    tape = from_bytes(content, {name: find(name) for name in known}, "standard input" if what == "-" else what)
    if not (positional or named):
        return Program(tape.play, *recorded(tape), arguments_of(tape), tape)
    return Program(tape.play, tuple(positional), named, arguments_of(tape), tape)


def arguments_of(tape: Tape) -> list[str]:
    """Return the names of a tape's positional arguments, from the labels of its inputs."""
    labels = [x.label for x in tape.inputs[1:]]
    if tape.structure is None:
        return labels
    firsts = [labels[part.start] if part.size else "" for part in tape.structure.args]
    found = [re.match(r"\w+", label) for label in firsts]
    return [name[0] if name else f"x{i}" for i, name in enumerate(found, 1)]


def literal(text: str, name: str) -> Any:
    """Evaluate a Python expression of literals and NumPy's names, lists of numbers as arrays of floats; or look up
    `pkg.mod:name`: an array, a tensor, a torch.nn.Module.

    >>> literal("[1, 2]", "x"), literal("math:pi", "y"), literal("1/2", "z"), literal("np.pi", "z")
    (array([1., 2.]), 3.141592653589793, 0.5, 3.141592653589793)
    """
    if NAMED.fullmatch(text.strip()):
        return look_up(text.strip(), "nothing called")
    try:
        return _arrays(eval(compile(text.strip(), "<value>", "eval"), _namespace()))
    except Exception as err:
        why = "" if isinstance(err, (SyntaxError, NameError)) else f" ({type(err).__name__}: {err})"
        raise Failure(f"{name}: {text.strip()!r} is not a value{why}: give a Python literal or a NumPy expression, "
                      "such as 2.0, [1, 2], np.pi/4, (1.0, [2.0]) or \"'text'\", or pkg.mod:name") from None


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
    """Return an expression as a function: its arguments are `names`, the other names NumPy's and Python's.

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
    free = [node.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))
            if isinstance(node, ast.Name)]
    unknown = list(dict.fromkeys(name for name in free if name not in bound))
    if unknown:
        raise Failure(f"{' and '.join(unknown)} in {text!r} {'has' if len(unknown) == 1 else 'have'} no value: "
                      f"add {' '.join(f'{name}=1.0' for name in unknown)} (a function in a file is pkg.mod:function)")
    linecache.cache[EXPRESSION] = len(text), None, [f"{line}\n" for line in text.splitlines()], EXPRESSION
    return FunctionType(next(const for const in code.co_consts if isinstance(const, CodeType)), namespace, "f")


def _namespace() -> dict[str, Any]:
    """Return NumPy's functions by bare name, without Python's abs, max, min …, which do the same for a number."""
    functions = {name: getattr(np, name) for name in np.__all__ if not hasattr(builtins, name)}
    functions = {name: fn for name, fn in functions.items() if callable(fn) and not isinstance(fn, type)}
    return {**functions, "sum": _sum, "np": np, "math": math, "pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan,
            "__name__": EXPRESSION}


def _sum(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Sum an array as NumPy does, anything else as Python does."""
    return (np.sum if hasattr(x, "shape") else builtins.sum)(x, *args, **kwargs)


def find(what: str) -> Callable[..., Any]:
    """Import the function `pkg.mod:function`."""
    fn = look_up(what, "no function")
    if not callable(fn):
        raise Failure(f"{what} is not a function: it is a {type(fn).__name__}")
    return fn  # type: ignore[no-any-return]


def only_function(file: str) -> str:
    """Return `file.py:f` for a file that defines one public function, f."""
    module = _of_file(file)
    found = [name for name, value in vars(module).items() if isinstance(value, FunctionType)
             and value.__module__ == module.__name__ and not name.startswith("_")]
    if len(found) != 1:
        raise Failure(f"which function of {file}? " + (f"It has {', '.join(found[:8])}: {file}:{found[0]}" if found
                                                      else "It defines none"))
    return f"{file}:{found[0]}"


def _of_file(file: str) -> Any:
    """Import a file by its path, once, as a module named after it."""
    path = Path(file).expanduser().resolve()
    known = sys.modules.get(path.stem)
    if file_of(known) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise Failure(f"there is no file {file!r}")
    module = importlib.util.module_from_spec(spec)
    if known is None:
        sys.modules[path.stem] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def look_up(what: str, nothing: str) -> Any:
    """Import the object that `pkg.mod:name`, or `path/to/file.py:name`, names."""
    name, _, path = what.rpartition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = _of_file(name) if name.endswith(".py") else importlib.import_module(name)
    except ModuleNotFoundError as err:
        if err.name and (name == err.name or name.startswith(f"{err.name}.")):
            raise Failure(f"there is no module {name!r}, installed or in the current directory") from None
        raise Failure(f"{name} cannot be imported: {one_line(err)}") from err
    except Failure:
        raise
    except Exception as err:
        raise Failure(f"{name} cannot be imported: {one_line(err)}") from err
    try:
        return operator.attrgetter(path)(module)
    except AttributeError:
        there = [key for key, value in vars(module).items() if (callable(value) or nothing != "no function")
                 and not key.startswith("_")]
        like = get_close_matches(path, there, 1) or there[:5]
        raise Failure(f"{name} has {nothing} {path!r}" + (f"; it has {', '.join(like)}" if like else "")) from None


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
