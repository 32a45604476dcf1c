"""Summary: the number of operations that each line of the program recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tapegrad.errors import Location
from tapegrad.numbers.formatting import count_of
from tapegrad.ops import getfield, getitem, stack
from tapegrad.ops.each import Each
from tapegrad.show.line import Places, reverse_start, shorten
from tapegrad.show.sheet import Sheet
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.transforms.batch import LOOPED, SINGLY

LINES = 20  # the lines shown, those that recorded most
APART = 80  # least width at which the two directions are counted apart


class Count(NamedTuple):
    """A line of the program, and the numbers of operations it recorded forward and backward."""

    where: Location | None
    forward: int
    reverse: int

    @property
    def total(self) -> int:
        """Both numbers together."""
        return self.forward + self.reverse


def counts(tape: Tape) -> list[Count]:
    """Return the lines that recorded operations, those that recorded most first.

    >>> import tapegrad as tg
    >>> [count.total for count in counts(tg.trace(lambda x: x * x + x, 2.0)[1])]
    [2, 2]
    """
    start = reverse_start(tape)
    forward, reverse = _per_line(tape.ops[:start]), _per_line(tape.ops[start:])
    found = [Count(where, forward[where], reverse[where]) for where in {**forward, **reverse}]
    return sorted(found, key=lambda count: -count.total)


def _per_line(ops: Sequence[Operation]) -> Counter[Location | None]:
    places = Places()
    found = Counter(map(places.line, ops))
    return Counter({None if where is None else where._replace(function=""): number for where, number in found.items()})


def sheet(tape: Tape, width: int = 100, limit: int | None = LINES) -> Sheet:
    """Return a table of the lines that recorded most, of at most `width` characters; forward and backward are counted
    apart if there is room.
    """
    found = counts(tape)
    kept, left = found[:limit], found[len(found[:limit]):]
    rows = [(*_numbers(count, len(tape)), *_texts(count.where)) for count in kept]
    if left:
        others = Count(None, sum(count.forward for count in left), sum(count.reverse for count in left))
        rows.append((*_numbers(others, len(tape)), "", count_of(len(left), "more line")))
    header = ("operations", "forward", "reverse", "share", "line", "source")
    apart = width >= APART and any(count.reverse for count in found)
    table = [tuple(cell for name, cell in zip(header, row) if apart or name not in ("forward", "reverse"))
             for row in (header, *rows)]
    sizes = [max(map(len, column)) for column in zip(*table)][:-1]
    room = max(width - sum(sizes) - 2 * len(sizes), 8)
    table = [(*map(str.rjust, row[:-2], sizes), row[-2], shorten(row[-1], room)) for row in table]
    singly = _called_singly(tape)
    title = f"operations by line: {count_of(len(found), 'line')}" + (f"; for each member of a batch alone: "
                                                                     f"{', '.join(singly)}" if singly else "")
    return Sheet(title, table[0], [("primal", row) for row in table[1:]])


def _called_singly(tape: Tape) -> list[str]:
    """Return the names of functions that are called once for each member of a batch."""
    fns = [op.fn.op if type(op.fn) is Each else op.fn for op in tape.ops
           if isinstance(op, Call) and op.origin in (SINGLY, LOOPED)
           and op.fn not in (getitem, stack, getfield)]
    return sorted({getattr(fn, "__name__", "a function") for fn in fns})


def _numbers(count: Count, whole: int) -> tuple[str, ...]:
    return f"{count.total:,}", f"{count.forward:,}", f"{count.reverse:,}", f"{count.total / max(whole, 1):.0%}"


def _texts(where: Location | None) -> tuple[str, str]:
    return ("", "inputs, seed, results") if where is None else (where.short, where.source)
