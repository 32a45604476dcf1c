"""profile: the time, bytes and calls of a replay, by operation and by the user's line, forward and backward apart."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tapegrad.debug.clock import clock_for
from tapegrad.debug.execution import is_field, leaves_of, name_of
from tapegrad.debug.report import Column, table
from tapegrad.debug.speedscope import speedscope
from tapegrad.errors import ArgumentError, Location
from tapegrad.numbers.cotangents import Accumulator
from tapegrad.numbers.formatting import count_of
from tapegrad.numbers.tensors import is_distributed, is_tensor
from tapegrad.progress import Work
from tapegrad.replay.interpreter import Run
from tapegrad.rules.op import Cotangents
from tapegrad.show.display import Displayed, Spans
from tapegrad.show.line import Places, reverse_start
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.trace.collector import collector
from tapegrad.transforms.unroll import unroll

ROWS = 12  # of each table; the others are summed
UNITS = (("s", 1e9, 10e9), ("ms", 1e6, 1e6), ("us", 1e3, 0.0))  # length in nanoseconds, and the least total shown in it
BARS = {False: ("█", "░"), True: ("#", "=")}
WHOLE = 99  # a column of numbers is shown in full or not at all
HEAVY = (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


class Part(NamedTuple):
    """The cost of a phase: nanoseconds, bytes of the arrays that its operations made, calls."""

    time: int = 0
    bytes: int = 0
    calls: int = 0

    def plus(self, other: Part) -> Part:
        """Return the sum."""
        return Part(*map(sum, zip(self, other)))


class Cost(NamedTuple):
    """The cost of an operation by name, or of a line, in each phase; `sent` are the bytes sent in both."""

    name: str
    where: Location | None
    forward: Part = Part()
    backward: Part = Part()
    sent: int = 0

    @property
    def time(self) -> int:
        """Nanoseconds, both phases together."""
        return self.forward.time + self.backward.time


class Profile(Displayed):
    """The times of the fastest of several replays; prints as two tables with bars.

    `ends` are the nanoseconds from the start to the end of each operation, `sizes` the bytes of the arrays that each
    made. On DTensors, `sent` are the bytes that this process sent for each, as a ring sends them. Freeing a value
    counts as the next operation's time. `setup`, the first operation's time, is the liveness analysis of a replay.
    """

    def __init__(self, tape: Tape, ends: list[int], sizes: list[int], sent: list[int] | None = None) -> None:
        self.tape, self.ends, self.sizes, self.sent = tape, ends, sizes, sent or []
        self.turn = reverse_start(tape) + 1

    @property
    def setup(self) -> int:
        """Nanoseconds before the first call."""
        return self.ends[0] if self.ends else 0

    @property
    def total(self) -> int:
        """Nanoseconds of the whole replay, the sum of its parts."""
        return self.ends[-1] if self.ends else 0

    @property
    def times(self) -> list[int]:
        """Nanoseconds of each operation."""
        return [end - start for start, end in zip([0, *self.ends], self.ends)]

    @cached_property
    def operations(self) -> list[Cost]:
        """The costs by operation, the most expensive first."""
        return self._costs(lambda op: (name_of(op), None))

    @cached_property
    def lines_of_source(self) -> list[Cost]:
        """The costs by the user's line, the most expensive first; operations without a line last."""
        places = Places()
        return self._costs(lambda op: (places.texts(op)[0], places.line(op)))

    def _costs(self, key: Callable[[Operation], tuple[str, Location | None]]) -> list[Cost]:
        found: dict[tuple[str, Location | None], list[list[int]]] = {}
        sent: dict[tuple[str, Location | None], int] = {}
        for op, time, size, out in zip(self.tape, self.times, self.sizes, self.sent or [0] * len(self.sizes)):
            if op.id > 1:  # the first stands for the setup
                sent[key(op)] = sent.get(key(op), 0) + out
                part = found.setdefault(key(op), [[0, 0, 0], [0, 0, 0]])[op.id >= self.turn]
                part[0] += time
                part[1] += size
                part[2] += type(op) is Call and not is_field(op)
        costs = [Cost(*at, Part(*forward), Part(*backward), sent[at]) for at, (forward, backward) in found.items()]
        return sorted(costs, key=lambda cost: (cost.name == "", -cost.time))

    def to_speedscope(self, path: str | Path | None = None) -> str:
        """Return the profile as JSON for https://www.speedscope.app (phases, functions, lines, operations); write it to
        `path`.
        """
        text = speedscope(self.tape, self.ends, self.turn)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    # -- printing

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        unit, scale = next((unit, scale) for unit, scale, least in UNITS if self.total >= least)
        sums = [sum(part) for part in zip(*((c.forward.time, c.backward.time) for c in self.operations))] or [0, 0]
        full, light = BARS[ascii_only]
        shares = [(f"forward {full}", sums[0]), (f"backward {light}", sums[1]), ("setup", self.setup)]
        size = count_of(len(self.tape), "operation")
        yield [(f"{self.tape.name or 'tape'}: {size}, {_amount(self.total, scale)} {unit}", "title")]
        yield [("  " + ", ".join(f"{name} {_amount(time, scale)}" for name, time in shares if time), "")]
        for name, costs in (("line", self.lines_of_source), ("operation", self.operations)):
            yield []
            yield from _table(name, costs, (unit, scale), width, ascii_only, bool(self.sent))

    def __repr__(self) -> str:
        size = count_of(len(self.tape), "operation")
        return f"<Profile of {self.tape.name or 'a tape'}: {size}, {self.total / 1e6:.3f} ms>"


def profile(tape: Tape, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, repeats: int = 5) -> Profile:
    """Replay a tape `repeats` times with each operation timed, as often without, and return the Profile of the fastest.
    DTensors are replayed on their mesh.

    The clock is read after each operation, and the cost of the readings is subtracted. On a tape with loops, the calls
    of each run are timed: the Profile is that of `tg.unroll(tape)`. Raises the errors of a replay.

    >>> import tapegrad as tg
    >>> found = tg.gradtape(lambda a, b: a / (a + b * b), 2.0, 3.0).profile(repeats=3)
    >>> [(cost.forward.calls, cost.backward.calls) for cost in found.operations if cost.name == "divide"]
    [(1, 1)]
    """
    if repeats < 1:
        raise ArgumentError(f"profile: {repeats} repeats", try_="at least 1")
    tape = unroll(tape.check())
    leaves = leaves_of(tape, args, kwargs or {})
    with Work("measuring"), collector:
        mesh: Any = importlib.import_module("tapegrad.compile.torch.mesh") if any(map(is_distributed, leaves)) else None
        replay = Run if mesh is None else mesh.replay
        sizes, sent, clock = _made(replay(tape, leaves), None if mesh is None else mesh.Traffic())
        ends = clock.measure(lambda: replay(tape, leaves), repeats)
    return Profile(tape, ends, sizes, sent)


def _made(run: Run, traffic: Any) -> tuple[list[int], list[int], Any]:
    """Replay once without timing; return the bytes that each operation made, those that it sent if traffic is counted,
    and the clock for the values.
    """
    sizes, sent = list[int](), list[int]()
    with nullcontext() if traffic is None else traffic:
        for op in run:
            given = [run.values[arg.id] if isinstance(arg, Operation) else arg for arg in op.args]
            sizes.append(bytes_made(run.values[op.id], given) if isinstance(op, Call) else 0)
            if traffic is not None:
                sent.append(traffic.bytes - sum(sent))
    return sizes, sent, clock_for([*run.leaves, *run.constants])


def bytes_made(value: Any, given: Sequence[Any]) -> int:
    """Return the bytes of the arrays in a value that share no memory with the call's arguments."""
    old = list(_arrays(given))
    return sum(x.nbytes for x in _arrays([value]) if not any(_shared(x, y) for y in old))


def _arrays(values: Sequence[Any]) -> Iterator[Any]:
    stack = list(values)
    while stack:
        top = stack.pop()
        if isinstance(top, (tuple, list)):
            stack += top
        elif type(top) is Cotangents:
            stack.append(top.dy)
        elif type(top) is Accumulator:
            stack.append(top.dense())
        elif (isinstance(top, np.ndarray) and top.ndim) or is_tensor(top):
            yield getattr(top, "_local_tensor", top)  # this process's part of a DTensor


def _shared(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray):
        return isinstance(y, np.ndarray) and np.may_share_memory(x, y)
    return is_tensor(y) and bool(x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr())


# -- the tables


def _table(name: str, costs: list[Cost], unit: tuple[str, float], width: int | None, ascii_only: bool,
           sends: bool) -> list[Spans]:
    """Return one table, with bars in proportion to the times; a last row sums the rows not shown."""
    shown, rest = costs[:ROWS], costs[ROWS:]
    if rest:
        parts = [Part(), Part()]
        for cost in rest:
            parts = [parts[0].plus(cost.forward), parts[1].plus(cost.backward)]
        shown = [*shown, Cost(f"{len(rest)} more", None, parts[0], parts[1], sum(cost.sent for cost in rest))]
    both = any(cost.backward.time for cost in costs)
    longest = max((cost.time for cost in shown), default=0) or 1
    room = 20 if width is None or width >= 100 else 10 if width >= 80 else 6
    rows = []
    for cost in shown:
        row = [cost.name or "(no line)", _amount(cost.forward.time, unit[1]),
               _amount(cost.backward.time, unit[1]) if both else "",
               _both(cost.forward.calls, cost.backward.calls, both, str),
               _both(cost.forward.bytes, cost.backward.bytes, both, _heavy),
               *([_heavy(cost.sent) if cost.sent else ""] if sends else []),
               bar(cost, longest, room, ascii_only), cost.where.source if cost.where else ""]
        rows.append(("", row))
    columns = [Column(name), Column(f"{'forward ' if both else ''}{unit[0]}", right=True),
               Column("backward", right=True),
               Column("calls", right=True), Column("bytes", right=True, least=WHOLE),
               *([Column("sent", right=True, least=WHOLE)] if sends else []), Column(""),
               Column("source", least=12)]
    lines = table(columns, rows, width, ascii_only)
    return [lines[0], *(_coloured(line) for line in lines[1:])]


def bar(cost: Cost, longest: int, room: int, ascii_only: bool) -> str:
    """Return a bar of the time, forward then backward, in two characters that differ without colour too."""
    ends = round(cost.forward.time * room / longest), round(cost.time * room / longest)
    full, light = BARS[ascii_only]
    return full * ends[0] + light * (ends[1] - ends[0])


def _coloured(line: Spans) -> Spans:
    """Give the bar's two parts their colours."""
    found: Spans = []
    for text, style in line:
        kinds = set(text.strip())
        if kinds and kinds <= set("#=█░"):
            full = text.rstrip("=░ ")
            found += [(full, "forward"), (text[len(full):], "backward")]
        else:
            found.append((text, style))
    return found


def _amount(time: float, scale: float) -> str:
    return f"{time / scale:.1f}" if scale == 1e3 else f"{time / scale:.3f}"


def _both(forward: int, backward: int, both: bool, write: Callable[[int], str]) -> str:
    return (f"{write(forward)}+{write(backward)}" if both and (forward or backward) else write(forward) if forward
            else "")


def _heavy(size: int) -> str:
    name, scale = next(((name, scale) for name, scale in HEAVY if size >= scale), ("", 1.0))
    return f"{size / scale:.{int(size / scale < 9.95 and scale > 1)}f}{name}"
