"""function: compiles a tape to a Python function."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from itertools import count
from typing import Any

import tapegrad.compile.numpy.loop_source  # noqa: F401  (registers how loops are written)
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
_freed: list[str] = []  # files of freed functions, removed later: a debugger may be iterating over linecache
BY_BLAS = frozenset([solve_triangular, cholesky_pullback])  # ops that are faster with SciPy's BLAS


class Miss(GuardError):
    """A compiled tape was called with arguments, or met a value, with which the program might take another path."""

    def __init__(self, tape: Tape, guard: Guard | None) -> None:
        self.tape, self.guard = tape, guard
        what, where = f"{tape.name} was compiled for arguments of other types, dtypes, shapes or static values", None
        if guard is not None:
            where = guard.where
            what = (f"this tape was recorded where {guard.fact}({guard.args[0].name}) was {quoted(guard.expected)}; "
                    "now it differs, and the program might take another path")
        super().__init__(what, where, "compile the function instead of the tape, since it traces again; or trace it "
                                      "with these arguments")

    def describe(self) -> str:
        """Return a short description of the difference."""
        if self.guard is None:
            return "the type, shape or static value of an argument, or another value that the function reads"
        return f"{self.guard.fact}({self.guard.args[0].name})" + (f" at {self.guard.where}" if self.guard.where else "")


class Unfit(ArgumentError):
    """A mode cannot execute a program, whichever of its tapes is compiled."""


def compile_tape(tape: Tape, fresh: Callable[[], bool] | None = None, checks: bool = True,
                 calm: bool = False) -> Callable[..., Any]:
    """Return a function equivalent to `tape.play`, compiled from straight-line Python, its `source` attribute.

    `fresh` is the freshness check made at each call. Without `checks` the function does not check its arguments, and
    does not restore random generators after an error. If `calm`, NumPy computes where Python's functions may raise.
    """
    with collector:  # a full collection would walk the tape and find nothing
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
    """Import faster implementations from other libraries, worthwhile only for tapes that run repeatedly."""
    if any(op.fn in BY_BLAS for op in tape.ops):
        load_blas()


def assemble(tape: Tape, source: Source, fresh: Callable[[], bool] | None, checks: bool = True) -> str:
    """Return the text of a function: freshness check, argument checks, body."""
    unpacked = Unpacked(tape, source.leaves, source.bind, "raise miss()")
    body = [*(["if not fresh(): raise miss()"] if fresh is not None else []), *(unpacked.lines if checks else [])]
    inner = [*source.body, f"return {source.result}"]
    if source.sources and checks:  # after a miss, the fallback must draw the same numbers
        body += [f"give_back = hold(({', '.join(source.sources)},), {stops_after_drawing(tape)})",
                 "try:", *_indented(inner), "except Exception:", "    give_back()", "    raise"]
    else:
        body += inner
    return "\n".join([f"def compiled({unpacked.parameters}):", *_indented(body), ""])


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
