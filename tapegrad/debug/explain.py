"""explain: a function's value and gradient, the lines that contribute to the gradient, and the first suspicious
operation.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tapegrad.debug.execution import Executed, is_field, leaves_of, recorded, replayed, triple_of
from tapegrad.debug.find import LIMIT, MASK, NOT_FINITE, Finding, brought_along, first, lost
from tapegrad.debug.report import Column, paragraph, table
from tapegrad.debug.ties import ties
from tapegrad.debug.values import figure, is_zero, norm, numbers
from tapegrad.errors import Location
from tapegrad.numbers.cotangents import ZERO, Accumulator, accumulate, dense
from tapegrad.numbers.formatting import count_of, type_name
from tapegrad.progress import Work
from tapegrad.show.display import Displayed, Spans
from tapegrad.show.line import Places, reverse_start, short, tidy
from tapegrad.tape.tape import Call, Input, Operation, Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms.reverse import back
from tapegrad.transforms.rewrite import placed, rewrite

ARGUMENTS, LINES = 6, 12  # shown at most: one screen
SATURATED = 1e-8  # an operation saturates if it passes on less than this part of its cotangent


@dataclass(eq=False)
class Source:
    """A line of the user's program: its number of operations, the norm of the cotangents that arrive there, and its
    contribution to each input's gradient.
    """

    where: Location | None
    operations: int = 0
    flow: float = 0.0
    parts: dict[Input, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Explanation(Displayed):
    """The result of `explain`; prints on one screen.

    `value` and `gradient` are those of `grad`. `sources` are the lines in the order in which they first ran, `findings`
    the problems, worst first. `tape` is the primal tape, `reverse` the gradient tape; findings name operations on one
    of the two.
    """

    tape: Tape
    reverse: Tape
    value: Any
    gradient: tuple[Any, ...]
    gradients: dict[Input, Any]
    sources: list[Source]
    findings: list[Finding]

    @property
    def finding(self) -> Finding | None:
        """The worst finding, if any."""
        return self.findings[0] if self.findings else None

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        yield [(f"{self.tape.name or 'f'} = ", "title"), (written(self.value), "")]
        names = {x: f"d{x.label or x.name}" for x in self.gradients}
        rows = [("gradient", (f"  {names[x]}", written(dx), type_name(dx), remark(dx)))
                for x, dx in list(self.gradients.items())[:ARGUMENTS]]
        yield from table([Column(""), Column("", least=12), Column("", least=8), Column("")], rows, width,
                         ascii_only)[1:]
        yield from more(len(self.gradients) - ARGUMENTS, "argument")
        for finding in self.findings:
            yield []
            yield from finding.lines(width, ascii_only)
        yield []
        yield from self._contributions(names, width, ascii_only)

    def _contributions(self, names: dict[Input, str], width: int | None, ascii_only: bool) -> Iterator[Spans]:
        kept = sorted(self.sources, key=lambda s: -order(max([s.flow, *map(norm, s.parts.values())])))[:LINES]
        headings = {x: heading(names[x], dx) for x, dx in self.gradients.items()}
        least = {x: max(min(len(head), 14), *[len(amount(part)) for part in
                                              (self.gradients[x], *(s.parts[x] for s in kept if x in s.parts))])
                 for x, head in headings.items()}
        shown = sorted(headings, key=lambda x: -order(norm(self.gradients[x])))[:ARGUMENTS]
        if width is not None:  # as many as fit beside a line of the program
            room = width - 30 - max((len(s.where.short) for s in kept if s.where), default=0)
            ends = itertools.accumulate(least[x] + 2 for x in shown)
            shown = shown[:max(sum(end <= room for end in ends), 1)]
        shown = [x for x in self.gradients if x in shown]
        columns = [Column("line"), Column("ops", right=True), Column("flow", right=True),
                   *(Column(headings[x], right=True, least=least[x]) for x in shown), Column("source", least=16)]
        rows = [("", (s.where.short if s.where else "", str(s.operations), figure(s.flow) if s.flow else "",
                      *(amount(s.parts[x]) if x in s.parts else "" for x in shown), s.where.source if s.where else ""))
                for s in self.sources if s in kept]
        rows.append(("title", ("gradient", "", "", *(amount(self.gradients[x]) for x in shown), "")))
        yield [("where the gradient comes from", "title")]
        yield from table(columns, rows, width, ascii_only)
        yield from more(len(self.sources) - LINES, "line")
        yield from more(len(self.gradients) - len(shown), "argument")

    def __repr__(self) -> str:
        return f"<Explanation of {self.tape.name or 'f'}: {count_of(len(self.sources), 'line')}, {self.finding!r}>"


def explain(f: Callable[..., Any], *args: Any, seed: Any = 1, **kwargs: Any) -> Explanation:
    """Return where the gradient of `f(*args, **kwargs)` comes from, line by line, and what looks wrong about it.

    For each line of the program: its number of operations, the 2-norm of the cotangents that flow into it, and its
    contribution to the gradient of each argument (a number, or an array's norm). Findings are nan or inf, forward or
    backward, a gradient of zeros, a saturated operation, and a branch taken by a comparison of equal numbers. `seed` is
    that of `grad`. Floating-point warnings are not shown.

    >>> found = explain(lambda a, b: a / (a + b * b), 2.0, 3.0)
    >>> found.value, found.gradient
    (0.18181818181818182, (None, 0.0743801652892562, -0.09917355371900827))
    >>> [{x.label: dx for x, dx in source.parts.items()} for source in found.sources]
    [{'a': 0.0743801652892562, 'b': -0.09917355371900827}]
    """
    with Work("explaining", f), np.errstate(all="ignore"), collector:
        tape = record(f, args, kwargs, DEFAULT, grad=True)
        reverse = back(rewrite(tape.check()), seed)
        lines = Lines(reverse)
        visits = lines.visits()
        backward = first(reverse, (visit for visit in visits if visit.op.id >= lines.begin), NOT_FINITE)
        deque(visits, 0)
        value, gradient = lines.result
        gradients = {x: dx for x, dx in zip(placed(reverse), lines.gradients) if dx is not None}
        findings = [*suspicions(tape, reverse, lines, backward), *ties(tape)]
    return Explanation(tape, reverse, value, gradient, gradients, list(lines.sources.values()), findings)


class Lines:
    """Collects the contribution of each line of the program from the values on a gradient tape."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.begin = tape, reverse_start(tape) + 1
        self.sources: dict[Location | None, Source] = {}
        self.places = Places()
        self.result: tuple[Any, Any] = (None, None)
        self.gradients: list[Any] = []
        self.flat: list[tuple[Call, Executed, float, float]] = []  # saturated operations
        self.arriving = 0.0  # the norm of the last pullback's cotangent
        self.most = 0.0  # the largest norm of a cotangent

    def visits(self) -> Iterator[Executed]:
        """Process and yield all operations, by a replay if cotangents are summed in place (the tape has only sums)."""
        tape, in_place = self.tape, any(type(op.val) is Accumulator for op in self.tape)
        for visit in replayed(tape, leaves_of(tape, (), {})) if in_place else recorded(tape):
            self.see(visit)
            yield visit

    def of(self, op: Operation) -> Source:
        """Return the Source of an operation's line."""
        where = self.places.line(op)
        return self.sources.setdefault(where, Source(where))

    def see(self, visit: Executed) -> None:
        """Process one operation."""
        op, rr = visit.op, triple_of(visit.op)
        if op is self.tape.result:
            self.result, self.gradients = visit.value, visit.given[1:]
        elif op.id < self.begin:
            if type(op) is Call and not is_field(op):
                self.of(op).operations += 1
        elif rr is not None and isinstance(op.fn, Operation):
            self.arriving = norm(visit.given[0])
            source, self.most = self.of(op), max(self.most, self.arriving)
            source.flow = math.hypot(source.flow, self.arriving)
        elif rr is not None:
            self.pass_on(visit, rr)

    def pass_on(self, visit: Executed, rr: Call) -> None:
        """Process the cotangent of one argument: if the argument is an input, the call's line contributes it."""
        x = rr.args[1 + visit.op.args[1]]
        if isinstance(x, Input):
            parts = self.of(visit.op).parts
            # an accumulator is written to again
            dx = visit.value.array.copy() if type(visit.value) is Accumulator else visit.value
            parts[x] = accumulate(parts.get(x, ZERO), dx)
        elif len(rr.args) == 2:
            passed = norm(visit.value)
            if passed <= SATURATED * self.arriving and self.arriving:
                self.flat.append((rr, visit, self.arriving, passed))


def suspicions(tape: Tape, reverse: Tape, lines: Lines, backward: Finding | None) -> Iterator[Finding]:
    """Yield the first nan or inf of the forward pass and of the reverse sweep; if there are none, a constant that
    spoils the result, a lost gradient, or a saturated operation.
    """
    ill = {kind: any(test(x).any() for x in numbers(list(lines.result))) for kind, test in NOT_FINITE.items()}
    masked = not any(test(x).any() for test in NOT_FINITE.values() for x in numbers(lines.result[0]))
    forward = first(tape, recorded(tape), NOT_FINITE if any(ill.values()) else ["nan"])
    if forward is not None:
        why = MASKED.format(kind=forward.kind) if backward else HARMLESS
        yield replace(forward, message=f"{forward.message} {why}", try_=MASK if backward else "") if masked else forward
    if backward is not None:
        yield replace(backward, try_="") if forward is not None and masked else backward
    if forward is None and backward is None:
        brought = next(filter(None, (brought_along(tape, lambda: recorded(tape), kind, LIMIT) for kind in ill
                                     if ill[kind])), None)
        zero = any(map(is_zero, lines.gradients))
        other = brought or (lost(reverse, recorded(reverse)) if zero else None) or saturated(reverse, lines)
        yield from [other] if other is not None else []


MASKED = ("The result does not use it, but the reverse sweep goes through it all the same, with a cotangent of 0: "
          "0 * {kind} is nan.")
HARMLESS = "Neither the result nor the gradient shows it."


def saturated(tape: Tape, lines: Lines) -> Finding | None:
    """Return a finding for the first saturated operation, if the gradient of some input is negligible too."""
    for rr, visit, arriving, passed in lines.flat:
        if any(norm(dx) <= SATURATED * lines.most for dx in lines.gradients if next(numbers(dx), None) is not None):
            name = getattr(rr.args[0], "__name__", "")
            return Finding("saturated", rr, tape, "backward", visit.value,
                           f"{name} hardly changes with its argument here: a cotangent of norm "
                           f"{figure(arriving)} arrives, and {visit.op.note} has norm {figure(passed)}.")
    return None


# -- cells


def written(value: Any) -> str:
    """Return a value as text, without NumPy's padding."""
    return tidy(short(value)).replace("[ ", "[")


def remark(dx: Any) -> str:
    """Return the defect of a gradient as text; if there is none, the norm of an array's."""
    for kind, test in NOT_FINITE.items():
        for x in numbers(dx):
            if test(x).any():
                return f"{kind} in {test(x).sum()} of {x.size}" if x.ndim else ""
    return "zero" if is_zero(dx) else f"norm {figure(norm(dx))}" if getattr(dx, "shape", ()) else ""


def heading(name: str, dx: Any) -> str:
    """Return the name of a column: that of an array holds norms."""
    return f"|{name}|" if getattr(dx, "shape", ()) else name


def amount(dx: Any) -> str:
    """Return a contribution as text: a number, or the norm of an array."""
    dx = dense(dx)
    return figure(dx) if isinstance(dx, float) else figure(norm(dx))


def order(x: float) -> float:
    """Return a sort key by which nan is more than any number."""
    return math.inf if math.isnan(x) else x


def more(count: int, noun: str) -> list[Spans]:
    """Return a line that counts the rows not shown."""
    return paragraph(f"and {count_of(count, noun)} more", "note", None) if count > 0 else []
