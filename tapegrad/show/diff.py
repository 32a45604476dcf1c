"""Diff: the differences between two tapes, such as before and after a pass."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import brief, count_of
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.show.display import Displayed
from tapegrad.show.line import Line, lines, shorten
from tapegrad.show.match import Matching
from tapegrad.show.styles import STYLES, dots
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.trace.collector import collector

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

AROUND = 2  # unchanged operations shown around a change
WHOLE = 200  # rows on a terminal
NAMES = 5  # functions named in a summary
SIGNS = {"same": " ", "removed": "-", "added": "+", "changed": "~"}


class Entry(NamedTuple):
    """An operation on both tapes: `old` on the one, `new` on the other, None where it is missing."""

    old: Operation | None
    new: Operation | None
    why: str = ""  # the change

    @property
    def kind(self) -> str:
        """One of same, removed, added, changed."""
        return "added" if self.old is None else "removed" if self.new is None else "changed" if self.why else "same"


class Row(NamedTuple):
    """A printed entry; without a sign, a note of omitted entries."""

    kind: str
    sign: str
    old: str
    new: str
    operation: str
    note: str
    line: str
    source: str


class Diff(Displayed):
    """The comparison of two tapes: operations are the same (whatever their numbers), removed, added or changed. True if
    anything differs. It prints as text, and in colours on a terminal; `summary` is one line.
    """

    def __init__(self, old: Tape, new: Tape) -> None:
        if not isinstance(new, Tape):
            raise ArgumentError(f"a tape can only be compared with a tape, not with a {type(new).__name__}",
                                try_="tape.diff(tg.primitivize(tape))")
        self.old, self.new = old, new
        with collector:
            matching = Matching(old, new, _bodies)
        old_of = matching.old_of
        self.entries = list(_merged(old, new, matching))
        self.moved = _out_of_order([old_of[op].id for op in new if op in old_of])
        self.other_result = (None if new.result is None else old_of.get(new.result)) is not old.result
        now = {matching.number_of[then]: op for op, then in old_of.items()}  # by value number
        self.computed_by = {op: now.get(matching.number_of[op]) for op in self.removed}

    def __bool__(self) -> bool:
        return bool(self.moved or self.other_result or any(entry.kind != "same" for entry in self.entries))

    @property
    def removed(self) -> list[Operation]:
        """The operations of the old tape that the new one lacks."""
        return [entry.old for entry in self.entries if entry.old is not None and entry.kind == "removed"]

    @property
    def added(self) -> list[Operation]:
        """The operations of the new tape that the old one lacks."""
        return [entry.new for entry in self.entries if entry.new is not None and entry.kind == "added"]

    @property
    def changed(self) -> list[Entry]:
        """The operations with different arguments, or a different function of the same arguments."""
        return [entry for entry in self.entries if entry.kind == "changed"]

    @property
    def summary(self) -> str:
        """One line, such as `16 operations -> 11: 4 multiply, 1 guard removed`."""
        parts = [f"{_listed(ops)} {kind}" for kind, ops in (("removed", self.removed), ("added", self.added)) if ops]
        parts += [f"{number:,} {kind}" for kind, number in (("changed", len(self.changed)), ("moved", self.moved))
                  if number]
        parts += ["another result"] if self.other_result and parts == [] else []
        count = count_of(len(self.old), "operation")
        return f"{count} -> {len(self.new):,}: {'; '.join(parts)}" if parts else f"{count}, unchanged"

    def __repr__(self) -> str:
        return f"<Diff: {self.summary}>"

    def format(self, width: int | None = None) -> str:
        """Return the summary, then the changes with their surroundings, in ASCII, with at most `width` characters to a
        line.
        """
        rows = [Row(*(cell.encode("ascii", "backslashreplace").decode() for cell in row)) for row in self.rows()]
        old, new, operation, note = _sizes([row for row in rows if row.sign])
        operation = operation if width is None else min(operation, max(width - old - new - 6 - min(note, 24), 16))
        written = [f"{row.sign} {row.old:>{old}} {row.new:>{new}}  {shorten(row.operation, operation):<{operation}}  "
                   f"{row.note:<{note}}  {row.line}".rstrip() if row.sign else row.operation for row in rows]
        found = [f"{self.new.name or 'tape'}: {self.summary}", *written]
        return "\n".join(found if width is None else [shorten(line, width).rstrip() for line in found])

    def rows(self, most: int | None = None) -> Iterator[Row]:
        """Yield the rows to print: changes, their surroundings, and the numbers of entries left out; at most `most`
        rows.
        """
        near = _near([entry.kind != "same" for entry in self.entries])
        shown = [i for i, here in enumerate(near) if here]
        if most is not None and len(shown) > most:
            shown = [*shown[:most // 2], *shown[-(most // 2):]]
        olds = [self.entries[i].old for i in shown if self.entries[i].new is None]
        news = [self.entries[i].new for i in shown if self.entries[i].new is not None]
        written = {op: row for tape, ops in ((self.old, olds), (self.new, news))
                   for op, row in zip(ops, lines(tape, filter(None, ops)))}
        last = -1
        for i in (*shown, len(self.entries)) if shown else ():
            if i > last + 1:
                what = "left out: print(diff) shows all" if any(near[last + 1:i]) else "unchanged"
                yield Row("same", "", "", "", f"... {i - last - 1:,} {what} ...", "", "", "")
            if i < len(self.entries):
                yield self._row(self.entries[i], written)
            last = i

    def _row(self, entry: Entry, written: dict[Operation | None, Line]) -> Row:
        line = written[entry.new or entry.old]
        note = entry.why
        instead = self.computed_by.get(entry.old) if entry.old is not None else None
        if entry.kind == "removed" and instead is not None:
            note = f"{instead.name} computes it"
        old, new = ("" if op is None else op.name for op in (entry.old, entry.new))
        return Row(entry.kind, SIGNS[entry.kind], old, new, line.operation, note or line.note, line.line, line.source)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        from rich.text import Text
        ascii_only, width = options.ascii_only, options.max_width
        yield Text(f"{self.new.name or 'tape'}: {self.summary}".replace("->", "->" if ascii_only else "→"),
                   STYLES["title"])
        rows = list(self.rows(WHOLE))
        old, new, operation, note = _sizes([row for row in rows if row.sign])
        note = min(note, max(width // 3, 16))
        operation = min(operation, max(width - old - new - note - 7, 16))
        last = ""
        for row in rows:
            if row.line and row.line != last:  # a heading where the line of the program changes
                heading = Text(shorten(f"{row.line}  {row.source}", width, dots(ascii_only)), STYLES["text"],
                               no_wrap=True, overflow="crop")
                heading.stylize(STYLES["line"], 0, len(row.line))
                yield heading
            last = row.line or last
            text = Text(row.operation.replace("...", dots(ascii_only)) if not row.sign
                        else f"{row.sign} {row.old:>{old}} {row.new:>{new}}  ",
                        STYLES[row.kind], no_wrap=True, overflow="crop")
            if row.sign:
                text.append(f"{shorten(row.operation, operation, dots(ascii_only)):<{operation}}  ")
                text.append(shorten(row.note, note, dots(ascii_only)), STYLES["note"])
            text.rstrip()
            yield text


def _sizes(rows: Sequence[Row]) -> list[int]:
    return [max((len(getattr(row, name)) for row in rows), default=0) for name in ("old", "new", "operation", "note")]


def _merged(old: Tape, new: Tape, matching: Matching) -> Iterator[Entry]:
    """Yield the entries in the new tape's order, removed operations at their old place."""
    at = 0  # the last position passed on the old tape
    for op in new:
        then = matching.old_of.get(op)
        end = len(old) + 1 if then is None else then.id
        while at + 1 < end and (then is not None or old[at + 1] not in matching.taken):
            at += 1
            if old[at] not in matching.taken:
                yield Entry(old[at], None)
        at = max(at, end) if then is not None else at
        yield Entry(then, op, matching.why.get(op, ""))
    for gone in old.ops[at:]:
        if gone not in matching.taken:
            yield Entry(gone, None)


def _near(differs: list[bool]) -> list[bool]:
    """Return which entries differ or are near one that does."""
    found = [False] * len(differs)
    for i, here in enumerate(differs):
        if here:
            for j in range(max(i - AROUND, 0), min(i + AROUND + 1, len(differs))):
                found[j] = True
    return found


def _out_of_order(positions: Sequence[int]) -> int:
    """Return how many must move to bring all into order: all but a longest increasing subsequence.

    >>> _out_of_order([1, 5, 2, 3, 4])
    1
    """
    ends: list[int] = []  # lowest end of an increasing subsequence, by length
    for position in positions:
        at = bisect_left(ends, position)
        ends[at:at + 1] = [position]
    return len(positions) - len(ends)


def _name(op: Operation) -> str:
    """Return the name of an operation's function, or its kind."""
    if not isinstance(op, Call):
        return op.kind
    return "loop" if is_loop(op) else "pullback" if isinstance(op.fn, Operation) else brief(op.fn)


def _listed(ops: Sequence[Operation]) -> str:
    """Count operations by their function, or kind.

    >>> from tapegrad.tape.tape import Constant, call
    >>> _listed([call(divmod, 7, 2), Constant(1.0), call(divmod, 7, 3)])
    '2 divmod, 1 constant'
    """
    names = Counter(map(_name, ops))
    others = sum(number for _, number in names.most_common()[NAMES:])
    return ", ".join([f"{number:,} {name}" for name, number in names.most_common(NAMES)]
                     + [f"{others:,} other"] * (others > 0))


def _bodies(old: Loop, new: Loop) -> str:
    """Describe how two loops differ."""
    found = Diff(old.body, new.body)
    parts = [f"was {brief(old)}"] if brief(old) != brief(new) else []
    return ", ".join([*parts, f"body: {found.summary}"] if found or not parts else parts)
