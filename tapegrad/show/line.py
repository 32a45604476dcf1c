"""Line: an operation, or a group that belongs together, in the columns that every format prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tapegrad.brief import brief, type_name
from tapegrad.errors import Location, locate
from tapegrad.ops.structure import getfield
from tapegrad.rules import Cotangents, Traced, rrule
from tapegrad.tape import UNKNOWN, Call, Constant, Guard, Input, Operation, Tape, Unknown

Fields = dict[Operation, list[Operation]]
"""By tuple: the operations that take its fields out, in order."""


class Line(NamedTuple):
    """One printed line; `role` names its style."""

    role: str
    variable: str
    operation: str
    type: str
    note: str
    line: str
    source: str


class Column(NamedTuple):
    """When a column is shown, and how wide it usually is: a wider entry does not push the other lines to the right."""

    name: str
    needs: int  # the total width from which on there is room for it
    usual: int


COLUMNS = (
    Column("variable", 0, 32), Column("operation", 0, 36), Column("type", 72, 24),
    Column("note", 0, 40), Column("line", 100, 32), Column("source", 120, 80),
)
# Where the room is short, columns shrink to these widths, step by step.
SHRINKS = (("source", 40), ("operation", 40), ("source", 20), ("line", 16), ("operation", 30), ("type", 12), ("note", 24),
           ("operation", 22), ("note", 16), ("operation", 16), ("type", 8), ("note", 8), ("variable", 8))


def heading(tape: Tape) -> str:
    """Return the line above a tape: whose it is, and how long.

    >>> heading(Tape(label="f"))
    'f: 0 inputs, 1 operation'
    """
    return f"{tape.name or 'tape'}: {_count(len(tape.inputs) - 1, 'input')}, {_count(len(tape), 'operation')}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def role_of(op: Operation) -> str:
    """Return what an operation is there for, by its kind and its note."""
    if isinstance(op, Input):
        return "input"
    if isinstance(op, Guard):
        return "guard"
    if isinstance(op, Constant):
        return "seed" if op.note == "seed" else "constant"
    if not isinstance(op, Call):
        return "primal"
    if op.note.startswith("accumulate "):
        return "accumulation"
    if op.note.startswith("gradient of "):
        return "gradient"
    of = op.args[0] if op.fn is getfield and op.args else op
    if isinstance(of, Call) and of.fn is rrule:
        return "triple"
    if (isinstance(of, Call) and isinstance(of.fn, Operation)) or op.note.startswith(("pullback of ", "d%")):
        return "pullback"
    return "primal"


def lines(tape: Tape, ops: Iterable[Operation], fields: Fields | None = None) -> Iterator[Line]:
    """Yield a line for each operation; with `fields`, those that only take a tuple apart join the tuple's line."""
    places: dict[tuple[int, int], tuple[str, str]] = {}
    joined = {field for group in (fields or {}).values() for field in group}
    for op in ops:
        if op in joined:
            continue
        place: tuple[str, str] = ("", "")
        if op.code is not None:
            key = id(op.code), op.lasti
            if key not in places:  # resolved once for each place in the program, however often it ran
                places[key] = _source(locate(op.code, op.lasti))
            place = places[key]
        group = [] if fields is None else fields.get(op, [])
        if group:
            yield Line(role_of(op), f"{_targets(op, group)} = [{op.name}]", tidy(op.body), _types(op, group), _notes(tape, op, group), *place)
        else:
            note = ", ".join(filter(None, [op.note, "result" if op is tape.result and op.note != "result" else ""]))
            kind = "" if isinstance(op, Guard) else _type(op)
            yield Line(role_of(op), op.name, _operation(op), kind, tidy(note), *place)


def _source(where: Location) -> tuple[str, str]:
    return where.short, where.source


def _operation(op: Operation) -> str:
    """Return the body; that of an input shows its value too, where this is short."""
    value = untraced(op.val)
    if isinstance(op, Constant):
        return tidy(short(value))
    if not isinstance(op, Input) or op.id == 1 or value is UNKNOWN or getattr(value, "size", 1) > 4:
        return tidy(op.body)
    return tidy(f"input {op.label}".rstrip() + f" = {short(value, 40)}")


def _type(op: Operation) -> str:
    return "" if op.val is UNKNOWN else type_name(untraced(op.val))


def untraced(value: Any) -> Any:
    """Return the value behind a proxy of an outer trace: printing a tape puts nothing on another one."""
    while isinstance(value, Traced):
        value = value._val
    return value


def short(value: Any, limit: int = 48) -> str:
    """Write a value in a few characters, the arrays in a structure too; `limit` also bounds the depth.

    >>> short({"w": (1.0, slice(1, None))})
    "{'w': (1.0, 1:)}"
    """
    value = untraced(value)
    if type(value) is dict and limit > 8:
        text = "{" + ", ".join(f"{key!r}: {short(part, limit - 8)}" for key, part in value.items()) + "}"
    elif type(value) in (tuple, list) and value and limit > 8:
        inner = ", ".join(short(part, limit - 8) for part in value)
        text = f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(value) == 1)})"
    else:
        return brief(value, limit)
    return shorten(text, limit)


# -- a tuple, and what takes its fields out, on one line


def fields_of(tape: Tape) -> Fields:
    """Return the calls whose fields are taken out by position, with the first operation that takes each."""
    found: dict[Operation, dict[int, Operation]] = {}
    for op in tape:
        if isinstance(op, Call) and op.fn is getfield and len(op.args) == 2:
            of, key = op.args
            if isinstance(of, Call) and type(key) is int and key >= 0:
                found.setdefault(of, {}).setdefault(key, op)
    return {of: [taken[key] for key in sorted(taken)] for of, taken in found.items()}


def _key(field: Operation) -> int:
    return field.args[1]  # type: ignore[no-any-return]


def _targets(op: Operation, group: Sequence[Operation]) -> str:
    """Write what the fields are assigned to, as Python does: `%5, %6`, `_` for what nobody takes, `%5,` for the only one."""
    length = _key(group[-1]) + 1
    if isinstance(op.val, (tuple, list, Cotangents, Unknown)):
        length = max(length, len(op.val))
    names = ["_"] * length
    for field in group:
        names[_key(field)] = field.name
    return ", ".join(names) + ("," if length == 1 else "")


def _types(op: Operation, group: Sequence[Operation]) -> str:
    kinds = [_type(group[0])] if role_of(op) == "triple" else [_type(field) for field in group]
    return kinds[0] if len(set(kinds)) == 1 else ", ".join(kinds)


def _notes(tape: Tape, op: Operation, group: Sequence[Operation]) -> str:
    parts = ", ".join(field.note for field in group if field.note)
    note = ": ".join(filter(None, [op.note, parts]))
    marked = [f"result {field.name}" for field in group if field is tape.result]
    marked += ["result"] if op is tape.result else []
    return tidy(", ".join(filter(None, [note, *marked])))


# -- text and widths


def tidy(text: str) -> str:
    """Return text on one line, without NumPy's padding, and without addresses, which differ from run to run.

    >>> tidy("[0. , 0.5, 1. ]")
    '[0., 0.5, 1.]'
    """
    return _NOISE.sub("", " ".join(text.split()))


_NOISE = re.compile(r" at 0x[0-9a-fA-F]+| (?=[,\]])")


def shorten(text: str, width: int, dots: str = "...") -> str:
    """Cut text to a width, with dots where something is missing.

    >>> shorten("pack(%11, %25, %26)", 12)
    'pack(%11,...'
    """
    return text if len(text) <= width else text[: max(width - len(dots), 0)] + dots[:max(width, 0)]


def widths(rows: Sequence[Line], total: int | None, gap: Callable[[int], int]) -> dict[str, int]:
    """Return the columns that fit into `total` characters, and the width of each.

    Empty columns are left out. `gap(n)` is what n columns need besides their text. Unlimited, a column is as wide as its
    widest entry of a usual length.
    """
    found = {}
    for number, column in enumerate(COLUMNS, 1):
        sizes = [len(row[number]) for row in rows]
        if any(sizes) and (total is None or total >= column.needs):
            found[column.name] = max((size for size in sizes if total is not None or size <= column.usual), default=column.usual)
    for name, least in SHRINKS:
        excess = 0 if total is None else sum(found.values()) + gap(len(found)) - total
        if excess > 0 and name in found:
            found[name] -= min(excess, max(found[name] - least, 0))
    return found
