"""Report: the operations that each pass removed, and the length of the tape before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tapegrad.numbers.formatting import brief
from tapegrad.show.display import Displayed, Spans
from tapegrad.tape.tape import Call, Operation, Tape


class Step(NamedTuple):
    """One run of a pass: the length of the tape before and after, and the number of operations removed by op (added:
    negative).
    """

    name: str
    before: int
    after: int
    removed: dict[str, int]

    @property
    def what(self) -> str:
        """The changes in the form `3 reshape, 2 multiply; new: 1 square`."""
        fewer = ", ".join(f"{n} {name}" for name, n in self.removed.items() if n > 0)
        more = ", ".join(f"{-n} {name}" for name, n in self.removed.items() if n < 0)
        return "; new: ".join(filter(None, [fewer or ("nothing" if more else ""), more]))


class Report(Displayed):
    """Collects the steps of `optimise`; prints one line for each pass.

    >>> from tapegrad.passes import Report, dce
    >>> report = Report()
    >>> report.add(dce, Tape(), Tape())
    >>> print(report)
    dce: 1 -> 1
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, done: Any, before: Tape, after: Tape) -> None:
        """Add the step in which a pass made one tape of another."""
        had, has = Counter(map(_name, before.ops)), Counter(map(_name, after.ops))
        had.subtract(has)
        removed = {name: n for name, n in sorted(had.items(), key=lambda item: (-item[1], item[0])) if n}
        self.steps.append(Step(getattr(done, "__name__", repr(done)), len(before), len(after), removed))

    @property
    def shown(self) -> list[Step]:
        """The steps to print: the first of each pass, and later ones that changed something."""
        first = {step.name: step for step in reversed(self.steps)}
        return [step for step in self.steps if step.what or step is first[step.name]]

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        for step in self.shown:
            told = f"  ({step.what})" if step.what else ""
            yield [(f"{step.name}: {step.before} -> {step.after}", ""), (told, "note")]


def _name(op: Operation) -> str:
    return brief(op.fn) if isinstance(op, Call) else op.kind
