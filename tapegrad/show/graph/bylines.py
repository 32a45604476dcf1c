"""by_lines: pictures with a box for each source line, for tapes too long to draw each operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import NamedTuple

from tapegrad.errors import Location
from tapegrad.numbers.formatting import brief
from tapegrad.ops import whole_of
from tapegrad.rules.user import is_triple
from tapegrad.show.graph.cost import cost_of
from tapegrad.show.graph.fold import amount, flowing
from tapegrad.show.graph.picture import Arrow, Box, Picture
from tapegrad.show.graph.sides import Sides
from tapegrad.show.graph.words import derivative, value_text
from tapegrad.show.line import Places, heading, shorten, tidy
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape

MOST = 300  # boxes; if there are more lines, those of one function share a box, then those of one file
FEW = 12  # inputs that get a box each
WIDEST = 48
_PLUMBING = frozenset(["getfield", "pack"])


class _Level(NamedTuple):
    """A way to group operations into boxes: its name, the key of a group, and the title of a box."""

    name: str
    key: Callable[[Location], Hashable]
    title: Callable[[Location], str]


_LEVELS = (_Level("source line", lambda at: (at.file, at.line), lambda at: at.source or at.short),
           _Level("function", lambda at: (at.file, at.function), lambda at: at.function),
           _Level("file", lambda at: at.file, lambda at: at.short.partition(":")[0]),
           _Level("half", lambda at: "", lambda at: "the program"))


class _Place(NamedTuple):
    """The box of an operation: its column, its role, its line or its argument."""

    reverse: bool
    role: str
    where: Hashable


def by_lines(tape: Tape) -> Picture:
    """Return a picture with a box for each source line and half of the tape, in linear time.

    An arrow to an earlier line comes from a loop; a line that uses its own last value is marked ↻.
    """
    return _Lines(tape).picture()


class _Lines:
    def __init__(self, tape: Tape) -> None:
        self.tape, self.sides = tape, Sides(tape)
        places = Places()
        self.where = {op: places.line(op) for op in tape}
        self.level = next(level for level in _LEVELS if len({level.key(at) for at in places.found.values()}) <= MOST
                          or level is _LEVELS[-1])
        self.few = len({_root(x.label) for x in tape.inputs}) <= FEW
        self.triples = any(map(is_triple, tape))
        self.groups: dict[_Place, list[Operation]] = {}
        self.member: dict[Operation, _Place] = {}
        for op in tape:
            if op is not self.sides.end and op.id != 1 and (type(op) is not Constant or op.purpose == "seed"):
                place = self.member[op] = self._place(op)
                self.groups.setdefault(place, []).append(op)
        self.first = {place: group[0].id for place, group in self.groups.items()}

    def picture(self) -> Picture:
        boxes = {self.first[place]: self._box(place, group) for place, group in self.groups.items()}
        arrows: Counter[tuple[int, int]] = Counter()
        loops: Counter[int] = Counter()
        for op, place in self.member.items():
            for used in flowing(op):
                if used in self.member:
                    tail, head = self.first[self.member[used]], self.first[place]
                    if tail != head:
                        arrows[tail, head] += 1
                    elif not place.reverse and _later(used, op):
                        loops[head] += 1
        for key, count in loops.items():
            boxes[key] = boxes[key]._replace(detail=f"{boxes[key].detail} ↻",
                                             hover=f"{boxes[key].hover}\nloop: goes on from itself {count} times")
        return Picture(f"{heading(self.tape)}, by {self.level.name}", boxes,
                       [Arrow(*ends, count) for ends, count in arrows.items()])

    def _place(self, op: Operation) -> _Place:
        where, role = self.where[op], _role(op, self.sides)
        if where is None or role in ("input", "gradient"):
            xs = [op] if isinstance(op, Input) else self.sides.gradients.get(op, [])
            return _Place(self.sides.reverse(op), role, _root(xs[0].label) if xs and self.few else "")
        return _Place(self.sides.reverse(op), role, self.level.key(where))

    def _box(self, place: _Place, group: list[Operation]) -> Box:
        role = place.role
        if role == "operation" and self.triples and not any(map(is_triple, group)):
            role = "constant"  # no gradient passes here
        counts = {name: name if count == 1 else f"{count} × {name}"
                  for name, count in Counter(map(_name, group)).most_common()}
        detail = self._detail(place, group, [count for name, count in counts.items() if name not in _PLUMBING])
        return Box(group[0].id, role, shorten(self._title(place, group[0]), WIDEST, "…"),
                   shorten(detail, WIDEST + 8, "…"), self._hover(group, list(counts.values())), reverse=place.reverse,
                   beside=self._beside(place) if place.reverse else None,
                   guards=sum(isinstance(op, Guard) for op in group), marked=self.sides.value in group)

    def _title(self, place: _Place, op: Operation) -> str:
        where, name = self.where[op], str(place.where)
        if place.role == "gradient":
            return derivative(name) if name else "gradients"
        if place.role == "input":
            return name or "inputs"
        return tidy(self.level.title(where)) if where is not None else "result" if place.role != "seed" else "seed"

    def _detail(self, place: _Place, group: list[Operation], counts: list[str]) -> str:
        if place.role in ("input", "gradient", "seed"):
            return value_text(group[0]) if len(group) == 1 else f"{len(group)} of them"
        detail, where = ", ".join(counts[:3]) + ", …" * (len(counts) > 3), self.where[group[0]]
        return tidy(f"{where.short}: {detail}" if where is not None and where.source and self.level is _LEVELS[0]
                    else detail)

    def _hover(self, group: list[Operation], counts: list[str]) -> str:
        costs, where = [cost_of(op) for op in group], self.where[group[0]]
        cost = [amount(sum(c.bytes or 0 for c in costs), "B"), amount(sum(c.flops or 0 for c in costs), "flop")]
        lines = [f"{len(group)} operations" if len(group) > 1 else "1 operation",
                 f"from {group[0].name} to {group[-1].name}", ", ".join(counts[:12])]
        if where is not None:
            lines += [f"line: {where.short} in {where.function}", f"source: {where.source}"]
        return "\n".join([*lines, *([f"cost: {', '.join(filter(None, cost))}"] if any(cost) else [])])

    def _beside(self, place: _Place) -> int | None:
        """Return the forward box of the same line or input; for the seed, the box that holds the value."""
        value = self.sides.value
        if place.role == "seed" and value in self.member:
            return self.first[self.member[value]]
        return self.first.get(_Place(False, "input" if place.role == "gradient" else "operation", place.where))


def _role(op: Operation, sides: Sides) -> str:
    if isinstance(op, Input):
        return "input"
    if op in sides.gradients:
        return "gradient"
    if op.purpose == "seed":
        return "seed"
    return "pullback" if sides.reverse(op) else "operation"


def _root(label: str) -> str:
    """Return the argument that contains a nested input: `w` of `w['b'][0]`."""
    return label.partition("[")[0].partition(".")[0]


def _name(op: Operation) -> str:
    if not isinstance(op, Call):
        return op.kind
    if is_triple(op):
        return brief(op.args[0])
    return "pullback" if isinstance(op.fn, Operation) else brief(op.fn)


def _later(used: Operation, op: Operation) -> bool:
    """Return whether an operation comes from the loop's previous iteration: it stands after its user, within a line of
    the forward half.
    """
    while (whole := whole_of(used)) is not None:
        used = whole
    if op.code is None or op.code is not used.code or used.lasti < op.lasti or isinstance(op, Guard):
        return False
    name = _name(op)
    return name not in _PLUMBING and (used.lasti > op.lasti or _name(used) == name)
