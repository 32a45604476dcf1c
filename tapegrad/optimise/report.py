"""Report: what each pass removed, and how long the tape was before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tapegrad.numbers.formatting import brief
from tapegrad.show.display import Displayed, Spans
from tapegrad.tape.tape import Call, Operation, Tape


class Step(NamedTuple):
    """One run of a pass: the number of operations before and after, and of which op it left how
    many fewer (more: negative).
    """

    name: str
    before: int
    after: int
    removed: dict[str, int]

    @property
    def what(self) -> str:
        """`3 reshape, 2 multiply; new: 1 square`."""
        fewer = ", ".join(f"{n} {name}" for name, n in self.removed.items() if n > 0)
        more = ", ".join(f"{-n} {name}" for name, n in self.removed.items() if n < 0)
        return "; new: ".join(filter(None, [fewer or ("nothing" if more else ""), more]))


class Report(Displayed):
    """Collects the steps of `optimise`; printed, it says what each pass did.

    >>> from tapegrad.passes import Report, dce
    >>> report = Report()
    >>> report.add(dce, Tape(), Tape())
    >>> print(report)
    dce: 1 -> 1
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, done: Any, before: Tape, after: Tape) -> None:
        """Note that a pass made one tape of another."""
        had, has = Counter(map(_name, before.ops)), Counter(map(_name, after.ops))
        had.subtract(has)
        removed = {name: n for name, n in sorted(had.items(), key=lambda item: (-item[1], item[0])) if n}
        self.steps.append(Step(getattr(done, "__name__", repr(done)), len(before), len(after), removed))

    @property
    def shown(self) -> list[Step]:
        """The steps worth a line: the first of each pass, and of the later ones those that changed anything."""
        first = {step.name: step for step in reversed(self.steps)}
        return [step for step in self.steps if step.what or step is first[step.name]]

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        for step in self.shown:
            told = f"  ({step.what})" if step.what else ""
            yield [(f"{step.name}: {step.before} -> {step.after}", ""), (told, "note")]


def _name(op: Operation) -> str:
    return brief(op.fn) if isinstance(op, Call) else op.kind
