"""function: a tape as a Python function."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from itertools import count
from typing import Any

import tapegrad.compile.numpy.loop_source  # noqa: F401  (how loops are written)
from tapegrad.compile.argument_source import Unpacked
from tapegrad.compile.numpy.program_lines import at_program
from tapegrad.compile.numpy.source import Source, write_source
from tapegrad.errors import ArgumentError, GuardError
from tapegrad.numbers.formatting import quoted
from tapegrad.ops import cholesky_pullback, load_blas, solve_triangular
from tapegrad.replay.random_state import hold, stops_after_drawing
from tapegrad.tape.tape import Guard, Tape
from tapegrad.trace.collector import collector

_numbers = count(1)
_freed: list[str] = []  # files of functions that are gone: a debugger may be going through the cache when that happens
BY_BLAS = frozenset([solve_triangular, cholesky_pullback])  # what SciPy's BLAS is imported for


class Miss(GuardError):
    """A compiled tape met arguments, or a value, that would have taken the program down another path."""

    def __init__(self, tape: Tape, guard: Guard | None) -> None:
        self.tape, self.guard = tape, guard
        what, where = f"{tape.name} was compiled for arguments of other types, dtypes, shapes or static values", None
        if guard is not None:
            where = guard.where
            what = (f"this tape was recorded where {guard.fact}({guard.args[0].name}) was {quoted(guard.expected)}; "
                    "now it is not, and the "
                    "program might take another path")
        super().__init__(what, where, "compile the function, which traces again, or trace it with these arguments")

    def describe(self) -> str:
        """Return in a few words what differed."""
        if self.guard is None:
            return "the type, shape or static value of an argument, or what the function read besides"
        return f"{self.guard.fact}({self.guard.args[0].name})" + (f" at {self.guard.where}" if self.guard.where else "")


class Unfit(ArgumentError):
    """A mode cannot serve a program; no other tape of it could."""


def compile_tape(tape: Tape, fresh: Callable[[], bool] | None = None, checks: bool = True,
                 calm: bool = False) -> Callable[..., Any]:
    """Return a function that computes what `tape.play` does, as straight-line Python: `function.source` is its text.

    `fresh` is asked at each call whether what the program read besides its arguments is still the same. Without
    `checks` it takes its arguments for those that the tape was made for, and gives back nothing that it draws. A `calm`
    one has NumPy compute what Python's functions raise of.
    """
    with collector:  # a full collection walks the tape, and finds nothing
        _prepare(tape.check())
        return _compiled(tape, write_source(tape, calm=calm), fresh, checks)


def _compiled(tape: Tape, source: Source, fresh: Callable[[], bool] | None,
              checks: bool = True) -> Callable[..., Any]:
    file = f"<tapegrad {tape.name} {next(_numbers)}>"
    names: dict[str, Any] = {"__name__": "tapegrad.compiled", "fresh": fresh, "hold": hold}
    names["miss"] = lambda number=-1, guards=source.guards: Miss(tape, None if number < 0 else guards[number])
    text = assemble(tape, source, fresh, checks)
    names.update(source.names)
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)  # for tracebacks
    exec(at_program(compile(text, file, "exec"), text, source.wheres, names), names)
    function: Any = names["compiled"]
    function.source, function.tape, function.__name__ = text, tape, tape.name
    while _freed:
        linecache.cache.pop(_freed.pop(), None)
    weakref.finalize(function, _freed.append, file)
    return function  # type: ignore[no-any-return]


def _prepare(tape: Tape) -> None:
    """Import what other libraries compute faster; a tape that is run once never comes here."""
    if any(op.fn in BY_BLAS for op in tape.ops):
        load_blas()


def assemble(tape: Tape, source: Source, fresh: Callable[[], bool] | None, checks: bool = True) -> str:
    """Put the text of a function together: the check of its arguments, its body."""
    unpacked = Unpacked(tape, source.leaves, source.bind, "raise miss()")
    body = [*(["if not fresh(): raise miss()"] if fresh is not None else []), *(unpacked.lines if checks else [])]
    inner = [*source.body, f"return {source.result}"]
    if source.sources and checks:  # what comes instead of this draws the same numbers
        body += [f"give_back = hold(({', '.join(source.sources)},), {stops_after_drawing(tape)})",
                 "try:", *_indented(inner), "except Exception:", "    give_back()", "    raise"]
    else:
        body += inner
    return "\n".join([f"def compiled({unpacked.parameters}):", *_indented(body), ""])


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
