"""segment_loop: a repeated segment of a tape as a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tapegrad.ops import getfield, pack
from tapegrad.ops.loop import Loop, given_label, step_label
from tapegrad.ops.structure import put_results
from tapegrad.optimise.cse import number
from tapegrad.optimise.repeat_detection import Segment
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, copy_op
from tapegrad.transforms.walk import Walk
from tapegrad.tree.flatten import flatten

STEPS = frozenset([int, float, bool])  # types of constants that may vary from run to run
EDGES = 3  # pieces at each end that a loop may leave out to be linked to another


class NotALoop(Exception):
    """The pieces of a segment are not runs of one loop; pieces that begin `later` operations further may be."""

    def __init__(self, later: int = 0) -> None:
        super().__init__()
        self.later = later


@dataclass(frozen=True)
class _Local:
    """An operand: an earlier operation of the same run, by its number in the body."""

    j: int


@dataclass(frozen=True)
class _Carried:
    """An operand: an operation of the previous run, by its number in the body; `first` in the first run."""

    j: int
    first: Operation


@dataclass(frozen=True)
class _Given:
    """An operand: one operation before the loop, the same in all runs."""

    op: Operation


@dataclass(frozen=True)
class Listed:
    """An operand: a separate operation before the loop for each run, in recorded order."""

    ops: tuple[Operation, ...]


@dataclass(frozen=True)
class _Step:
    """An operand: a constant that varies from run to run, by the number of the step."""

    n: int


@dataclass(frozen=True)
class _Same:
    """An operand: a constant."""

    value: Any


class SegmentLoop:
    """A segment as a loop, with the operands of each operation of its body."""

    def __init__(self, tape: Tape, segment: Segment, last: Any) -> None:
        self.tape, self.segment, self.last = tape, segment, last
        (self.start, self.period, self.pieces), self.stop = segment, segment.stop
        self.steps: dict[Any, tuple[Any, ...]] = {}
        self.same: set[int] = set()  # loop-invariant operations of the body
        self.uses = [self._uses(j) for j in range(self.period)]
        needed = [use for j, uses in enumerate(self.uses) if j not in self.same for use in uses]
        self.carried = list(dict.fromkeys(use for use in needed if type(use) is _Carried))
        self.listed = list(dict.fromkeys(use for use in needed if type(use) is Listed))
        given = [use.op if type(use) is _Given else self.op(0, use.j) if type(use) is _Local and use.j in self.same
                 else None for use in needed]
        self.given = list(dict.fromkeys(op for op in given if op is not None))
        self.leaving = self._leaving()
        self.links: dict[Listed, Link] = {}  # listed operands that another loop collects
        self.used_individually: set[Operation] = set()  # leaving operations that are used individually
        self.reverse = self.turned = False
        self.collections: dict[tuple[int, bool], Operation] = {}  # by number in the body; filled by `write`

    def moved(self, segment: Segment | None, least: int) -> SegmentLoop | None:
        """Return the loop of another segment of these pieces, itself if `segment` is None; None if that is no loop."""
        if segment is None:
            return self
        if segment.pieces < least:
            return None
        try:
            new = SegmentLoop(self.tape, segment, self.last)
        except NotALoop:
            return None
        new.turned = self.turned or (segment.start - self.start) % self.period > 0
        return new

    def link(self, link: Link) -> None:
        """Read a listed operand from another loop, unless existing links iterate in the other direction."""
        reverse = link.backwards != link.source.reverse
        if not self.links or reverse == self.reverse:
            self.links[link.use], self.reverse = link, reverse

    def used(self) -> Iterator[Operation]:
        """Yield the operations before the loop that it uses individually: all but those that another loop collects."""
        yield from self.given
        yield from (use.op for j in self.same for use in self.uses[j] if type(use) is _Given)
        yield from (use.first for use in self.carried)
        yield from (op for use in self.listed if use not in self.links for op in use.ops)

    def op(self, k: int, j: int) -> Operation:
        """Return operation `j` of run `k`."""
        return self.tape.ops[self.start + k * self.period + j]

    def _uses(self, j: int) -> list[Any]:
        """Return the operands of an operation of the body; the operand of a constant is the constant itself."""
        ops = self.tape.ops[self.start + j:self.stop:self.period]
        if type(ops[0]) is Constant:
            if type(ops[0].val) in STEPS:
                return [self._step(tuple(op.val for op in ops))]
            key = number(ops[0].val)
            if any(number(op.val) != key for op in ops):
                return [Listed(tuple(ops))]
            self.same.add(j)
            return []
        uses = [self._argument(j, [op.args[i] for op in ops]) for i in range(len(ops[0].args))]
        if all(type(use) in (_Given, _Same) or (type(use) is _Local and use.j in self.same) for use in uses):
            self.same.add(j)
        return uses

    def _argument(self, j: int, args: Sequence[Any]) -> Any:
        first = args[0]
        if not isinstance(first, Operation):
            key = number(first)
            if all(number(arg) == key for arg in args):
                return _Same(first)
            if type(first) not in STEPS:
                raise NotALoop
            return self._step(tuple(args))
        if all(arg is first for arg in args) and first.id <= self.start:
            return _Given(first)
        places = [arg.id - 1 - self.start - k * self.period for k, arg in enumerate(args)]
        if all(place == places[0] for place in places) and 0 <= places[0] < j:
            return _Local(places[0])
        if all(arg.id <= self.start and arg.spec == first.spec for arg in args):
            return Listed(tuple(args))
        made = places[1] + self.period
        if not (all(place == places[1] for place in places[1:]) and 0 <= made < self.period and first.id <= self.start):
            raise NotALoop
        if first.spec != self.op(0, made).spec:
            raise NotALoop
        return _Carried(made, first)

    def _step(self, values: tuple[Any, ...]) -> _Step:
        """Return the step that has these values, a new one if there is none."""
        key = (int, values) if all(type(value) is int for value in values) else tuple(map(number, values))
        self.steps.setdefault(key, values)
        return _Step(list(self.steps).index(key))

    def _leaving(self) -> set[Operation]:
        """Return the operations that are used after the loop, except the last run's carried ones. Raise NotALoop if a
        carried operation is loop-invariant: pieces that begin after its uses compute it themselves.
        """
        goes_on = {use.j for use in self.carried}
        if goes_on & self.same:
            raise NotALoop(1 + max(j for j, uses in enumerate(self.uses) for use in uses
                                 if type(use) is _Carried and use.j in self.same))
        leaves = (self.last[self.start + 1:self.stop + 1] > self.stop).reshape(self.pieces, self.period)
        leaves[:, list(self.same)] = leaves[-1, list(goes_on)] = False
        return {self.op(k, j) for k, j in np.argwhere(leaves).tolist()}

    def _collected(self, loops: Sequence[SegmentLoop]) -> list[tuple[int, bool]]:
        """Return the collected operations, by number in the body and whether the value coming into the run is meant:
        those that linked loops read, and those used individually.
        """
        found = {(link.j, link.into) for other in loops for link in other.links.values() if link.source is self}
        return sorted(found.union(((op.id - 1 - self.start) % self.period, False) for op in self.used_individually))

    def _value(self, k: int, j: int, into: bool) -> Any:
        """Return the value of operation `j` in piece `k`, or the value that comes `into` the piece."""
        if into and not k:
            return next(use.first.val for use in self.carried if use.j == j)
        return self.op(k - into, j).val

    def write(self, walk: Walk, loops: Sequence[SegmentLoop]) -> None:
        """Append to the new tape the invariant operations, the loop, and its results."""
        for j in sorted(self.same):
            made = walk.keep(self.op(0, j))
            for k in range(1, self.pieces):
                walk.at[self.op(k, j).id] = made
        if len(self.same) == self.period:
            return
        for use in self.listed:
            if type(use.ops[0]) is Constant and use.ops[0].id > self.start:
                for op in use.ops:
                    walk.keep(op)
        collected = self._collected(loops)
        lasts = [self.op(self.pieces - 1, use.j) for use in self.carried]
        vals = [tuple([self._value(k, *place) for k in self._runs()]) for place in collected]
        steps = [values[::-1] if self.reverse else values for values in self.steps.values()]
        loop = Loop(self._body(collected), self.pieces, steps, len(self.given), len(self.listed), len(lasts),
                    self.reverse)
        args = (*map(walk.bind, self.given), *(self._list(walk, use) for use in self.listed),
                *(walk.bind(use.first) for use in self.carried))
        call = walk.new.push(Call(loop, args, None, (*(op.val for op in lasts), *vals)).at(self.op(0, 0)))
        places = {(op.id - 1 - self.start) % self.period for op in self.used_individually}
        used_individually = self.used_individually.union(op for op, use in zip(lasts, self.carried) if use.j in places)
        for k, op in enumerate(lasts):
            made = walk.new.push(Call(getfield, (call, k), None, op.val).at(op))
            if walk.at[op.id] is None and op not in used_individually:  # collections include the last run
                walk.at[op.id] = made
        for k, (place, val) in enumerate(zip(collected, vals), len(lasts)):
            self.collections[place] = walk.new.push(Call(getfield, (call, k), None, val).at(self.op(0, place[0])))
        for op in sorted(used_individually, key=lambda op: op.id):
            if walk.at[op.id] is None:
                k, j = divmod(op.id - 1 - self.start, self.period)
                walk.at[op.id] = walk.new.push(Call(getfield, (self.collections[j, False], self._runs()[k]), None,
                                                    op.val).at(op))

    def _runs(self) -> range:
        """Return the number of each piece's run in the loop."""
        return range(self.pieces)[::-1] if self.reverse else range(self.pieces)

    def _list(self, walk: Walk, use: Listed) -> Operation:
        """Return a listed operand on the new tape: the collection of another loop, or a tuple."""
        link = self.links.get(use)
        if link is not None:
            return link.source.collections[link.j, link.into]
        ops = [use.ops[k] for k in self._runs()]
        into = flatten(tuple([0] * len(ops)), "", [], [])
        return walk.new.push(Call(pack, tuple(map(walk.bind, ops)), {"into": into}, tuple([op.val for op in ops])))

    def _body(self, collected: Sequence[tuple[int, bool]]) -> Tape:
        body = Tape(None, "loop")
        at: dict[Any, Any] = {_Step(n): body.push(Input(values[0], step_label(n)))
                              for n, values in enumerate(self.steps.values())}
        at |= {_Given(op): body.push(Input(op.val, given_label(getattr(op, "label", "")))) for op in self.given}
        at |= {_Local(j): at[_Given(self.op(0, j))] for j in self.same if _Given(self.op(0, j)) in at}
        at |= {use: body.push(Input(use.ops[0].val).at(use.ops[0])) for use in self.listed}
        at |= {use: body.push(Input(use.first.val)) for use in self.carried}
        for j, uses in enumerate(self.uses):
            op = self.op(0, j)
            if j in self.same:
                continue
            if type(op) is Constant:
                at[_Local(j)] = at[uses[0]]
            else:
                new = copy_op(op, lambda arg: arg)
                new.args = tuple([use.value if type(use) is _Same else at[use] for use in uses])
                # the variable differs by run
                new.origin = Origin("pullback") if new.purpose == "pullback" else None
                body.ops.append(new)
                new.id = len(body.ops)
                at[_Local(j)] = new
        into = {use.j: at[use] for use in self.carried}
        put_results(body, [at[_Local(use.j)] for use in self.carried]
                    + [into[j] if is_into else at[_Local(j)] for j, is_into in collected])
        return body


@dataclass(frozen=True)
class Link:
    """The listed operand of a loop read from an earlier loop, the source: the value of its operation `j`, or, if that
    is carried, the value that comes `into` the piece. Run 0 reads `piece`, later runs the next pieces, or the previous
    ones if `backwards`.
    """

    use: Listed
    source: SegmentLoop
    j: int
    into: bool
    piece: int
    backwards: bool

    @classmethod
    def found(cls, use: Listed, source: SegmentLoop) -> Iterator[Link]:
        """Yield the links for which all but a few first or last operations are consecutive source pieces."""
        middle = len(use.ops) // 2
        piece, j = divmod(use.ops[middle].id - 1 - source.start, source.period)
        apart = use.ops[middle].id - use.ops[middle - 1].id
        if 0 <= piece < source.pieces and abs(apart) == source.period and j not in source.same:
            for into in (False, True) if any(carried.j == j for carried in source.carried) else (False,):
                first = piece + into - (middle if apart > 0 else -middle)
                link = cls(use, source, j, into, first, apart < 0)
                if min(len(link.runs) - len(use.ops), len(link.pieces) - source.pieces) >= -2 * EDGES:
                    yield link

    @cached_property
    def runs(self) -> range:
        """The runs that have a piece in the source."""
        ops, source = self.use.ops, self.source
        into = {carried.j: carried.first for carried in source.carried}
        begin = end = len(ops) // 2
        step = -1 if self.backwards else 1

        def there(k: int) -> bool:
            piece = self.piece + step * k
            if not (0 <= k < len(ops) and 0 <= piece < source.pieces):
                return False
            return ops[k] is (source.op(piece, self.j) if not self.into else source.op(piece - 1, self.j) if piece
                              else into[self.j])
        while there(begin - 1):
            begin -= 1
        while there(end + 1):
            end += 1
        return range(begin, end + 1)

    @property
    def pieces(self) -> range:
        """The source's pieces that have a run."""
        ends = sorted(self.piece + (-k if self.backwards else k) for k in (self.runs[0], self.runs[-1]))
        return range(ends[0], ends[1] + 1)
