"""by_lines: a box for each line of the program, with counts, for tapes too long to draw each operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import NamedTuple

from tapegrad.brief import brief
from tapegrad.errors import Location
from tapegrad.rules import rrule
from tapegrad.show.graph.cost import cost_of
from tapegrad.show.graph.fold import amount, flowing
from tapegrad.show.graph.network import place_of
from tapegrad.show.graph.picture import Arrow, Box, Picture
from tapegrad.show.graph.sides import Sides
from tapegrad.show.graph.words import derivative, value_text
from tapegrad.show.line import heading, shorten, tidy
from tapegrad.tape import Call, Constant, Guard, Input, Operation, Tape

MOST = 300  # boxes; where there are more lines, those of one function share a box, then those of one file
WIDEST = 48
_PLUMBING = frozenset(["getfield", "pack"])


class _Place(NamedTuple):
    """What the operations of one box have in common."""

    reverse: bool
    role: str
    where: Hashable


_Key = Callable[[Location], Hashable]
_LEVELS: tuple[_Key, ...] = (lambda at: (at.file, at.line), lambda at: (at.file, at.function), lambda at: at.file, lambda at: None)


def by_lines(tape: Tape) -> Picture:
    """Return a picture with a box for each source line and half of the tape, in linear time.

    An arrow to an earlier line is a loop's.
    """
    sides = Sides(tape)
    places: dict[tuple[int, int], Location] = {}
    found = {op: place_of(op, places) for op in tape}
    labels = {_root(x.label) for x in tape.inputs}
    for level in _LEVELS:
        keys = {key: level(where) for key, where in places.items()}
        if len(set(keys.values())) <= MOST:
            break
    groups: dict[_Place, list[Operation]] = {}
    member: dict[Operation, _Place] = {}
    for op in tape:
        if op is sides.end or op.id == 1 or (type(op) is Constant and op.note != "seed"):
            continue
        where = found[op]
        place = _Place(op.id >= sides.begin, _role(op, sides), _input(op, sides, len(labels) <= 12) if where is None else level(where))
        groups.setdefault(place, []).append(op)
        member[op] = place
    first = {place: group[0].id for place, group in groups.items()}
    boxes = {first[place]: _box(place, group, first, sides, found[group[0]]) for place, group in groups.items()}
    arrows: Counter[tuple[int, int]] = Counter()
    for op, place in member.items():
        for used in flowing(op):
            if used in member:
                arrows[first[member[used]], first[place]] += 1
    loops = {tail: count for (tail, head), count in arrows.items() if tail == head}
    for key, count in loops.items():  # an arrow from a box to itself
        if tape[key].code is not None and count > 1:
            boxes[key] = boxes[key]._replace(detail=f"{boxes[key].detail} ↻", hover=f"{boxes[key].hover}\nused by itself: {count} times")
    return Picture(f"{heading(tape)}, by source line", boxes, [Arrow(*ends, count) for ends, count in arrows.items() if ends[0] != ends[1]])


def _role(op: Operation, sides: Sides) -> str:
    if isinstance(op, Input):
        return "input"
    if op in sides.gradients:
        return "gradient"
    if op.note == "seed":
        return "seed"
    return "pullback" if op.id >= sides.begin else "operation"


def _input(op: Operation, sides: Sides, few: bool) -> Hashable:
    """Return what the inputs, or the gradients, of one box share: the argument's name, or nothing where there are many."""
    xs = [op] if isinstance(op, Input) else sides.gradients.get(op, [])
    return _root(xs[0].label) if xs and few else ""


def _root(label: str) -> str:
    """Return the argument that a nested input is part of: `w` of `w['b'][0]`."""
    return label.partition("[")[0].partition(".")[0]


def _box(place: _Place, group: list[Operation], first: dict[_Place, int], sides: Sides, where: Location | None) -> Box:
    counts = Counter(_name(op) for op in group)
    costs = [cost_of(op) for op in group]
    cost = ", ".join(filter(None, [amount(sum(c.bytes or 0 for c in costs), "B"), amount(sum(c.flops or 0 for c in costs), "flop")]))
    parts = {name: count for name, count in counts.most_common() if name not in _PLUMBING}
    detail = ", ".join(name if count == 1 else f"{count} × {name}" for name, count in list(parts.items())[:3]) + ", …" * (len(parts) > 3)
    title = _title(place, group, sides, where)
    if place.role in ("input", "gradient", "seed"):
        detail = value_text(group[0]) if len(group) == 1 else f"{len(group)} of them"
    elif where is not None:
        detail = f"{where.short}: {detail}" if where.source else detail
    hover = [f"{len(group)} operations" if len(group) > 1 else "1 operation", f"from {group[0].name} to {group[-1].name}",
             "; ".join(f"{count} × {name}" for name, count in counts.most_common(12))]
    hover += [f"line: {where.short} in {where.function}", f"source: {where.source}"] if where else []
    beside = None
    if place.reverse:
        partner = _Place(False, {"gradient": "input"}.get(place.role, "operation"), place.where)
        value = sides.value
        beside = first.get(partner)
        if beside is None and place.role == "seed" and value is not None:
            beside = max((start for other, start in first.items() if not other.reverse and start <= value.id), default=None)
    return Box(group[0].id, place.role, shorten(title, WIDEST, "…"), shorten(tidy(detail), WIDEST + 8, "…"),
               "\n".join([*hover, *([f"cost: {cost}"] if cost else [])]), place.reverse, beside,
               sum(isinstance(op, Guard) for op in group), sides.value in group)


def _title(place: _Place, group: list[Operation], sides: Sides, where: Location | None) -> str:
    if where is not None:
        return tidy(where.source or where.short)
    name = str(place.where)
    if place.role == "gradient":
        return derivative(name) if name else "gradients"
    if place.role == "input":
        return name or "inputs"
    return "seed" if place.role == "seed" else name or place.role


def _name(op: Operation) -> str:
    if not isinstance(op, Call):
        return op.kind
    if op.fn is rrule:
        return brief(op.args[0])
    return "pullback" if isinstance(op.fn, Operation) else brief(op.fn)
