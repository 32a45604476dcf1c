"""roll: repeated segments of a tape become loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.ops import default_rng, draw, getfield
from tapegrad.ops.loop import Loop, given_label, put_results, step_label
from tapegrad.optimise.repeat_detection import Segment, key_of, segments
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, copy_op, operands
from tapegrad.transforms.walk import Walk, own

LEAST = 8  # runs of a loop
# operations that a loop is shorter by: below, the calls one by one run a little faster, and compile soon enough
SAVED = 2000
PEELED = 2  # first pieces that may be unlike the others, in what they are computed from
STEPS = frozenset([int, float, bool])  # constants that may differ from run to run


class Unlike(Exception):
    """The pieces of a segment are not runs of one loop."""


def roll(tape: Tape, least: int = LEAST, saved: int = SAVED) -> Tape:
    """Return a tape on which what a program's loop recorded again and again, `least` times or more, is a `Loop`, one
    body, where that saves so many operations.

    The pieces must make the same calls on values of the same types, each on what it has computed itself, on what the
    piece before it has, on the same earlier values as all others, or on numbers known when the tape was made. Their
    guards are the body's. What is the same in all runs is computed once, before the loop. Calls of a user's functions,
    and random draws, are in no loop. The tape's values are needed; those of a body are the first run's.

    >>> import tapegrad as tg
    >>> def f(x):
    ...     for i in range(100):
    ...         x = x + i * x
    ...     return x
    >>> value, tape = tg.trace(f, 1e-9)
    >>> rolled = roll(tape, saved=0)
    >>> len(tape), len(rolled), rolled.play(2e-9) == tape.play(2e-9)
    (202, 4, True)
    """
    if len(tape) < saved:
        return tape
    found = [segment for segment in segments(tape, least, saved) if _may_loop(tape, segment)]
    last = _last_uses(tape) if found else None
    loops = [rolled for segment in found if (rolled := _tried(tape, segment, last, least)) is not None]
    if not loops:
        return tape
    del last  # what is made below takes as much memory
    walk, at = Walk(tape), 0
    for rolled in loops:
        for op in tape.ops[at:rolled.start]:
            walk.keep(op)
        rolled.write(walk)
        at = rolled.stop
    for op in tape.ops[at:]:
        walk.keep(op)
    return walk.done()


def _may_loop(tape: Tape, segment: Segment) -> bool:
    """True for a segment of calls that do nothing but return a value, of a type that follows from their arguments'."""
    for op in tape.ops[segment.start:segment.start + segment.period]:
        if isinstance(op, Call) and (not own(op.fn) or op.fn in (draw, default_rng) or op.fn.dynamic or op.fn.rr is not None or op.fn.nested):
            return False
    return True


def _last_uses(tape: Tape) -> Any:
    """Return, by position, the last operation that uses each, one behind the tape for its result."""
    last = np.zeros(len(tape.ops) + 1, np.int32)
    for op in tape.ops:
        for used in operands(op):
            last[used.id] = op.id
    last[tape.result.id] = len(tape.ops) + 1  # type: ignore[union-attr]
    return last


def _tried(tape: Tape, segment: Segment, last: Any, least: int) -> _Rolled | None:
    """Return a segment's loop, if need be without its first pieces, or without the last, of which more is
    needed than what goes on.
    """
    for first in range(PEELED + 1):
        for short in range(2):
            pieces = segment.pieces - first - short
            if pieces >= least:
                try:
                    return _Rolled(tape, Segment(segment.start + first * segment.period, segment.period, pieces), last)
                except Unlike:
                    continue
    return None


@dataclass(frozen=True)
class _Local:
    """What an operation of the body uses: one before it in the same run, by its number in the body."""

    j: int


@dataclass(frozen=True)
class _Carried:
    """What the run before made, by its number in the body; before the first run there is `first`."""

    j: int
    first: Operation


@dataclass(frozen=True)
class _Given:
    """The same operation before the loop for every run."""

    op: Operation


@dataclass(frozen=True)
class _Step:
    """A constant of each run, by the number of the step."""

    n: int


@dataclass(frozen=True)
class _Same:
    """A constant."""

    value: Any


class _Rolled:
    """A segment as a loop: what each operation of its pieces uses."""

    def __init__(self, tape: Tape, segment: Segment, last: Any) -> None:
        self.tape, (self.start, self.period, self.pieces), self.stop = tape, segment, segment.stop
        self.steps: dict[Any, tuple[Any, ...]] = {}
        self.same: set[int] = set()  # operations of the body that are the same in all runs
        self.uses = [self._uses(j) for j in range(self.period)]
        needed = [use for j, uses in enumerate(self.uses) if j not in self.same for use in uses]
        self.carried = list(dict.fromkeys(use for use in needed if type(use) is _Carried))
        given = [use.op if type(use) is _Given else self.op(0, use.j) if type(use) is _Local and use.j in self.same else None for use in needed]
        self.given = list(dict.fromkeys(op for op in given if op is not None))
        self._check_leaving(last)

    def op(self, k: int, j: int) -> Operation:
        """Return operation `j` of run `k`."""
        return self.tape.ops[self.start + k * self.period + j]

    def _uses(self, j: int) -> list[Any]:
        """Return what each argument of an operation of the body is; that of a constant is the constant itself."""
        ops = self.tape.ops[self.start + j:self.stop:self.period]
        if type(ops[0]) is Constant:
            return [self._step(tuple(op.val for op in ops))]
        uses = [self._argument(j, [op.args[i] for op in ops]) for i in range(len(ops[0].args))]
        if all(type(use) in (_Given, _Same) or (type(use) is _Local and use.j in self.same) for use in uses):
            self.same.add(j)
        return uses

    def _argument(self, j: int, args: Sequence[Any]) -> Any:
        first = args[0]
        if not isinstance(first, Operation):
            key = key_of(first)
            if all(key_of(arg) == key for arg in args):
                return _Same(first)
            if type(first) not in STEPS:
                raise Unlike
            return self._step(tuple(args))
        if all(arg is first for arg in args) and first.id <= self.start:
            return _Given(first)
        places = [arg.id - 1 - self.start - k * self.period for k, arg in enumerate(args)]
        if all(place == places[0] for place in places) and 0 <= places[0] < j:
            return _Local(places[0])
        made = places[1] + self.period
        if not (all(place == places[1] for place in places[1:]) and 0 <= made < self.period and first.id <= self.start):
            raise Unlike
        if first.spec != self.op(0, made).spec:
            raise Unlike
        return _Carried(made, first)

    def _step(self, values: tuple[Any, ...]) -> _Step:
        """Return the step that has these values, a new one unless there is one."""
        key = (int, values) if all(type(value) is int for value in values) else tuple(map(key_of, values))
        self.steps.setdefault(key, values)
        return _Step(list(self.steps).index(key))

    def _check_leaving(self, last: Any) -> None:
        """Raise Unlike where what a run made is used behind the loop, unless the last run made it, and
        a next one would get it.
        """
        goes_on = {use.j for use in self.carried}
        if goes_on & self.same:
            raise Unlike
        leaves = (last[self.start + 1:self.stop + 1] > self.stop).reshape(self.pieces, self.period)
        leaves[:, list(self.same)] = leaves[-1, list(goes_on)] = False
        if leaves.any():
            raise Unlike

    def write(self, walk: Walk) -> None:
        """Put the loop on the new tape, what is the same in all runs before it, and what it returns behind it."""
        for j in sorted(self.same):
            made = walk.keep(self.op(0, j))
            for k in range(1, self.pieces):
                walk.at[self.op(k, j).id] = made
        if len(self.same) == self.period:
            return
        lasts = [self.op(self.pieces - 1, use.j) for use in self.carried]
        loop = Loop(self._body(), self.pieces, list(self.steps.values()), len(self.given), 0, len(lasts))
        args = tuple(walk.bind(arg) for arg in (*self.given, *(use.first for use in self.carried)))
        call = walk.new.push(Call(loop, args, None, tuple(op.val for op in lasts)).at(self.op(0, 0)))
        for number, op in enumerate(lasts):
            made = walk.new.push(Call(getfield, (call, number), None, op.val).at(op))
            if walk.at[op.id] is None:
                walk.at[op.id] = made

    def _body(self) -> Tape:
        body = Tape(None, "loop")
        at: dict[Any, Any] = {_Step(n): body.push(Input(values[0], step_label(n))) for n, values in enumerate(self.steps.values())}
        at |= {_Given(op): body.push(Input(op.val, given_label(getattr(op, "label", "")))) for op in self.given}
        at |= {_Local(j): at[_Given(self.op(0, j))] for j in self.same if _Given(self.op(0, j)) in at}
        at |= {use: body.push(Input(use.first.val)) for use in self.carried}
        for j, uses in enumerate(self.uses):
            op = self.op(0, j)
            if type(op) is Constant:
                at[_Local(j)] = at[uses[0]]
            elif j not in self.same:
                new = copy_op(op, lambda arg: arg)
                new.args, new.note = tuple([use.value if type(use) is _Same else at[use] for use in uses]), ""
                body.ops.append(new)
                new.id = len(body.ops)
                at[_Local(j)] = new
        put_results(body, [at[_Local(use.j)] for use in self.carried])
        return body
