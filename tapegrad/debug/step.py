"""step: plays a tape one operation at a time, forwards and back."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.debug.execution import name_of
from tapegrad.debug.report import Column, table
from tapegrad.errors import ArgumentError, TapeError
from tapegrad.numbers.formatting import type_name
from tapegrad.replay.interpreter import Run
from tapegrad.rules.user import is_triple
from tapegrad.show.display import Displayed, Spans
from tapegrad.show.line import reverse_start, role_of, short, shorten, tidy
from tapegrad.tape.tape import Guard, Operation, Tape, Variable
from tapegrad.tree.flatten import is_leaf

REACH = 4  # operations shown before and after the present one
PROMPT = "n)ext p)revious g)oto u)ntil v)alue q)uit > "
HELP = """\
n [count]   play the next operation, or several (or an empty line)
p [count]   go back
g number    go to %number
u what      play on until line 12, or demo.py:12, or operation sin
v           show the value in full
q           quit"""
Where = int | str | Callable[[Operation, Any], bool]


class Stepper(Displayed):
    """A replay that stops after each operation; prints the operations around the present one, and the user's line.

    Every value is kept unchanged, for steps back: a loop that writes n times to an array of n numbers takes n² of
    memory here. Random numbers are the recorded ones.

    >>> import tapegrad as tg
    >>> stepper = tg.trace(lambda a, b: a / (a + b * b), 2.0, 3.0)[1].step(4.0, 6.0)
    >>> stepper.until("add"), stepper.value
    (%5 = add(%2, %4), 40.0)
    >>> stepper.back(), stepper.value
    (%4 = multiply(%3, %3), 36.0)
    """

    def __init__(self, tape: Tape, leaves: list[Any]) -> None:
        self.tape = tape
        self._run = Run(tape, leaves, redraw=False, keep=True)
        self._ahead = iter(self._run)
        self._played, self._at, self._start = 0, 0, reverse_start(tape)
        self._error: TapeError | None = None
        self.goto(1)

    @property
    def here(self) -> Operation:
        """The operation that was played last, or gone back to."""
        return self.tape.ops[self._at - 1]

    @property
    def value(self) -> Any:
        """The value of the present operation."""
        return self._run.values[self._at]

    @property
    def values(self) -> dict[Operation, Any]:
        """The values of the operations up to the present one."""
        return {op: self._run.values[op.id] for op in self.tape.ops[:self._at]}

    @property
    def phase(self) -> str:
        """"forward" or "backward"."""
        return "backward" if self._at > self._start else "forward"

    @property
    def done(self) -> bool:
        """Whether the present operation is the last."""
        return self._at == len(self.tape)

    def forward(self, count: int = 1) -> Operation:
        """Play the next operation, or several, and return the present one; stay at the last. Raises the errors of a
        replay.
        """
        return self.goto(min(self._at + count, len(self.tape)))

    def back(self, count: int = 1) -> Operation:
        """Go back by one operation, or several, and return the present one; stay at the first."""
        return self.goto(max(self._at - count, 1))

    def goto(self, ref: int | Variable) -> Operation:
        """Go to the operation printed as `%ref`, playing up to it if needed."""
        target = self.tape[ref].id
        while self._played < target:
            if self._error is not None:
                raise self._error
            try:
                with np.errstate(all="ignore"):  # the user sees the values
                    next(self._ahead)
            except TapeError as err:
                self._error = err
                raise
            self._played += 1
            self._at = self._played
        self._at = target
        return self.here

    def until(self, what: Where) -> Operation | None:
        """Play on to the next operation of a line (12, "demo.py:12"), of a name ("sin"), or with `what(op, value)`
        true; return it. If there is none, return None and stay.
        """
        start, fits = self._at, _test(what)
        while not self.done:
            op = self.forward()
            if fits(op, self.value):
                return op
        self._at = start
        return None

    # -- on a terminal

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        here, where = self.here, self.here.where
        heading = f"{self.tape.name or 'tape'}: {here.name} of {len(self.tape)}, {self.phase}"
        yield [(heading, "title"), (f", at {where.short} in {where.function}" if where else "", "title")]
        for number in range(where.line - 1, where.line + 2) if where else ():
            source = linecache.getline(where.file, number).rstrip() if where else ""
            if source or (where and number == where.line):
                yield [(f"{number:>6} | ", "line"), (source, "present" if where and number == where.line else "source")]
        rows = [self._row(op) for op in self.tape.ops[max(self._at - 1 - REACH, 0): self._at + REACH]]
        columns = [Column(""), Column("", right=True), Column("", least=16), Column("", least=12), Column("", least=7),
                   Column("", least=10)]
        yield from table(columns, rows, width, ascii_only)[1:]

    def _row(self, op: Operation) -> tuple[str, tuple[str, ...]]:
        value = self._run.values[op.id] if op.id <= self._at and not isinstance(op, Guard) else None
        if is_triple(op) and isinstance(value, tuple):
            value = value[0]  # the triple's value; its pullback has an operation of its own
        text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else tidy(short(value, 40))
        kind = type_name(value) if is_leaf(value) else ""
        here = op is self.here
        note = ", ".join(filter(None, [op.note, "result" if op is self.tape.result and op.note != "result" else ""]))
        return "here" if here else role_of(op), (
            "-->" if here else "   ", op.name, tidy(shorten(op.body, 48)), text, kind, f"# {note}" if note else "")

    def interact(self, input: Callable[[str], str] = input, console: Any = None) -> None:
        """Step by commands from the keyboard (n, p, g, u, v, q) until the end of input; `console` is rich's."""
        if console is None:
            from rich.console import Console
            console = Console()
        console.print(self)
        while True:
            try:
                words = input(PROMPT).split(maxsplit=1) or ["n"]
            except (EOFError, KeyboardInterrupt):
                return
            if words[0] in ("q", "quit"):
                return
            try:
                console.print(self._command(words[0][:1], words[1].strip() if words[1:] else ""), markup=False,
                              highlight=False)
            except (TapeError, IndexError) as err:
                console.print(str(err), markup=False, highlight=False, soft_wrap=True)

    def _command(self, command: str, rest: str) -> Any:
        """Carry out a command; return the object to print."""
        if command in ("n", "p") and (not rest or rest.isdigit()):
            was = self._at
            self.forward(int(rest or 1)) if command == "n" else self.back(int(rest or 1))
            return (self if self._at != was else "This is the last operation." if command == "n"
                    else "This is the first operation.")
        if command == "g" and rest.lstrip("%").lstrip("-").isdigit():
            self.goto(int(rest.lstrip("%")))
            return self
        if command == "u" and rest:
            return self if self.until(int(rest) if rest.isdigit() else rest) else f"Nothing ahead is {rest}."
        return repr(self.value) if command == "v" else HELP

    def __repr__(self) -> str:
        return f"<Stepper of {self.tape.name or 'a tape'} at {self.here!r}>"


def _test(what: Where) -> Callable[[Operation, Any], bool]:
    if callable(what):
        return what
    if isinstance(what, int):
        return lambda op, value: (where := op.where) is not None and where.line == what
    if not isinstance(what, str):
        raise ArgumentError(f"until: {what!r} is not a place on a tape",
                            try_="a line, 12 or \"demo.py:12\", the name of an operation, or a function of both")
    file, _, line = what.rpartition(":")
    if file and line.isdigit():
        return (lambda op, value: (where := op.where) is not None and where.line == int(line)
                and f"/{where.file}".endswith(f"/{file.lstrip('/')}"))
    return lambda op, value: name_of(op) == what
