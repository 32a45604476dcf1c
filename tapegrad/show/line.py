"""Line: an operation, or a tuple with its fields, in the columns that every format prints."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from tapegrad.errors import Activation, Listing, Location, locate
from tapegrad.numbers.formatting import brief, count_of
from tapegrad.numbers.systems import system
from tapegrad.ops.loop import is_loop
from tapegrad.ops.structure import whole_of
from tapegrad.rules.op import Cotangents, Traced
from tapegrad.rules.user import is_triple
from tapegrad.tape.origin import REVERSE
from tapegrad.tape.spec import Absent
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, has_value

NO_NAMES: Mapping[Operation, str] = {}
Fields = dict[Operation, list[Operation]]
"""By tuple: the operations that extract its fields, in order."""


class Line(NamedTuple):
    """One printed line; `role` names its style."""

    role: str
    variable: str
    operation: str
    type: str
    value: str
    note: str
    line: str
    source: str


class Column(NamedTuple):
    """A column: the least total width that shows it, and its usual width; a wider entry shifts no other line."""

    name: str
    needs: int  # least total width that has room for it
    usual: int


COLUMNS = (
    Column("variable", 0, 32), Column("operation", 0, 36), Column("type", 72, 24),
    Column("value", 130, 24), Column("note", 0, 40), Column("line", 100, 32), Column("source", 120, 80),
)
TORCH = "torch."
SHAPE = 12  # or the width of tensors' types without "torch."
# Columns that do not fit shrink to these widths, step by step.
SHRINKS = (("value", 24), ("source", 40), ("operation", 40), ("source", 20), ("line", 16), ("operation", 30),
           ("type", SHAPE), ("note", 24),
           ("operation", 22), ("note", 16), ("operation", 16), ("type", 8), ("note", 8), ("variable", 8))


def heading(tape: Tape, guards: bool = True) -> str:
    """Return the line above a tape: its name, its length, and the number of guards left out.

    >>> heading(Tape(label="f"))
    'f: 0 inputs, 1 operation'
    """
    left = 0 if guards else sum(type(op) is Guard for op in tape.ops)
    return (f"{tape.name or 'tape'}: {count_of(len(tape.inputs) - 1, 'input')}, {count_of(len(tape), 'operation')}"
            + (f", {count_of(left, 'guard')} not shown" if left else ""))


def role_of(op: Operation) -> str:
    """Return the role of an operation, by its kind and its origin."""
    if isinstance(op, Input):
        return "input"
    if isinstance(op, Guard):
        return "guard"
    if isinstance(op, Constant):
        return "seed" if op.purpose == "seed" else "constant"
    if not isinstance(op, Call):
        return "primal"
    if op.purpose in ("accumulation", "gradient"):
        return op.purpose
    of = whole_of(op) or op
    if is_triple(of):
        return "triple"
    if isinstance(of.fn, Operation) or op.purpose in ("pullback", "cotangent"):
        return "pullback"
    return "primal"


def reverse_start(tape: Tape) -> int:
    """Return the number of operations before the reverse sweep; all of them if there is none. The sweep begins with the
    seed, or, on a flat tape without one, with the first operation whose purpose belongs to a sweep.
    """
    reverse = [i for i, op in enumerate(tape.ops) if op.purpose in REVERSE and not isinstance(op, Guard)]
    seeds = [i for i in reverse if tape.ops[i].purpose == "seed"]
    # the last seed: a primal tape may hold a sweep of its own
    start = seeds[-1] if seeds else reverse[0] if reverse else len(tape)
    while start and isinstance(tape.ops[start - 1], Guard) and tape.ops[start - 1].purpose in REVERSE:
        start -= 1
    return start


def lines(tape: Tape, ops: Iterable[Operation], fields: Fields | None = None, values: bool = False,
          names: Mapping[Operation, str] = NO_NAMES) -> Iterator[Line]:
    """Yield a line for each operation; with `fields`, the line of a tuple includes the operations that unpack it. With
    `values`, lines show numbers and small arrays. The program's `names` for values are among the notes.
    """
    places = Places()
    for op in ops:
        place = places.texts(op)
        group = [] if fields is None else fields.get(op, [])
        if group:
            value = ", ".join(filter(None, map(_value, group))) if values else ""
            yield Line(role_of(op), f"{_targets(op, group)} = [{op.name}]", tidy(op.body), _types(op, group), value,
                       _notes(tape, op, group, names), *place)
        else:
            result = "result" if op is tape.result and op.note != "result" else ""
            note = ", ".join(filter(None, [names.get(op), op.note, result]))
            kind = "" if isinstance(op, Guard) else op.type
            yield Line(role_of(op), op.name, _operation(op), kind, _value(op) if values else "", tidy(note), *place)


def listed(ops: Iterable[Operation], fields: Fields | None, guards: bool = True) -> list[Operation]:
    """Return the operations that have a line of their own: no fields of a tuple, guards only if wanted."""
    joined = {field for group in (fields or {}).values() for field in group}
    return [op for op in ops if op not in joined and (guards or type(op) is not Guard)]


class Places:
    """The source lines of operations, resolved once for each place in the program."""

    def __init__(self) -> None:
        self.found: dict[Any, Location] = {}
        self.lines: dict[tuple[str, int], Location] = {}
        self.written: dict[Location, tuple[str, str]] = {}

    def line(self, op: Operation) -> Location | None:
        """Return the user's line, the same object for all operations that it recorded; None if there is none."""
        if op.code is None:
            return None
        key = place_of(op)
        line = self.found.get(key)
        if line is None:
            where = locate(op.code, op.lasti)
            line = self.found[key] = self.lines.setdefault(where[:2], where)
        return line

    def texts(self, op: Operation) -> tuple[str, str]:
        """Return the line's short location and its text."""
        line = self.line(op)
        if line is None:
            return "", ""
        if line not in self.written:
            self.written[line] = line.short, line.source
        return self.written[line]


def place_of(op: Operation) -> tuple[int, int] | None:
    """Return a key of the instruction that recorded an operation, the same in each iteration of a loop."""
    return None if op.code is None else (id(code_of(op.code)), op.lasti)  # a code itself is slow to hash


def code_of(code: CodeType | Activation | Listing) -> CodeType | Listing:
    """Return the code that a call ran."""
    return code.code if isinstance(code, Activation) else code


def _operation(op: Operation) -> str:
    """Return the body of an operation; for an input with its value, if that is short."""
    value = untraced(op.val)
    if isinstance(op, Constant):
        return tidy(short(value))
    if not isinstance(op, Input) or op.id == 1 or not has_value(op) or not _few(value):
        return tidy(op.body)
    return tidy(f"input {op.label}".rstrip() + f" = {short(value, 40)}")


def _value(op: Operation) -> str:
    """Return a number or a small array as text; "" for an input or a constant, which show theirs anyway."""
    value = untraced(op.val)
    number = isinstance(value, (bool, int, float, complex)) or hasattr(value, "dtype") or system(value) is not None
    if isinstance(value, float) and isinstance(op, Call):
        return f"{value:.6g}"
    return tidy(short(value, 24)) if number and isinstance(op, Call) and _few(value) else ""


def _few(value: Any) -> bool:
    """Return whether a value is a number, or an array small enough for a column."""
    return math.prod(getattr(value, "shape", ())) <= 4


def untraced(value: Any) -> Any:
    """Return the value behind a proxy of an outer trace: printing a tape must record nothing on another."""
    while isinstance(value, Traced):
        value = value._val
    return value


def short(value: Any, limit: int = 48) -> str:
    """Return a value in a few characters, arrays in structures included; `limit` also bounds the depth.

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


# -- a tuple and the operations that extract its fields, on one line


def fields_of(tape: Tape) -> Fields:
    """Return the calls whose fields are extracted by position, with the first operation that extracts each."""
    found: dict[Operation, dict[int, Operation]] = {}
    for op in tape:
        of = whole_of(op)
        if of is not None and type(op.args[1]) is int and op.args[1] >= 0:
            found.setdefault(of, {}).setdefault(op.args[1], op)
    return {of: [taken[key] for key in sorted(taken)] for of, taken in found.items()}


def _key(field: Operation) -> int:
    return field.args[1]  # type: ignore[no-any-return]


def _targets(op: Operation, group: Sequence[Operation]) -> str:
    """Return the assignment targets of the fields, as in Python: `%5, %6`, `_` for an unused field, `%5,` for a single
    one.
    """
    length = _key(group[-1]) + 1
    if isinstance(op.val, (tuple, list, Cotangents, Absent)):
        length = max(length, len(op.val))
    names = ["_"] * length
    for field in group:
        names[_key(field)] = field.name
    return ", ".join(names) + ("," if length == 1 else "")


def _types(op: Operation, group: Sequence[Operation]) -> str:
    kinds = [group[0].type] if role_of(op) == "triple" else [field.type for field in group]
    return kinds[0] if len(set(kinds)) == 1 else ", ".join(kinds)


def _notes(tape: Tape, op: Operation, group: Sequence[Operation], names: Mapping[Operation, str]) -> str:
    parts = [field.note for field in group if field.note]
    note = op.note if is_loop(op) else ": ".join(filter(None, [op.note, ", ".join(parts)]))
    marked = [name for field in (op, *group) if (name := names.get(field))]
    marked += [f"result {field.name}" for field in group if field is tape.result]
    marked += ["result"] if op is tape.result else []
    return tidy(", ".join(filter(None, [note, *marked])))


# -- text and widths


def tidy(text: str) -> str:
    """Return text on one line, without NumPy's padding and without addresses, which differ from run to run.

    >>> tidy("[0. , 0.5, 1. ]")
    '[0., 0.5, 1.]'
    """
    return _NOISE.sub("", " ".join(text.split()))


_NOISE = re.compile(r" at 0x[0-9a-fA-F]+| (?=[,\]])")


def shorten(text: str, width: int, dots: str = "...", ending: bool = False) -> str:
    """Return text cut to a width, with dots for the missing part: at the end, or before the `ending`.

    >>> shorten("pack(%11, %25, %26)", 12)
    'pack(%11,...'
    """
    kept, dots = max(width - len(dots), 0), dots[:max(width, 0)]
    return text if len(text) <= width else dots + text[len(text) - kept:] if ending else text[:kept] + dots


def bare(groups: Sequence[list[Line]], size: Mapping[str, int]) -> Sequence[list[Line]]:
    """Return groups of rows for these columns: all types lose `torch.` if one would not fit with it."""
    if all(len(row.type) <= size.get("type", len(row.type)) for rows in groups for row in rows):
        return groups
    return [[row._replace(type=row.type.removeprefix(TORCH)) for row in rows] for rows in groups]


def widths(rows: Sequence[Line], total: int | None, gap: Callable[[int], int]) -> dict[str, int]:
    """Return the columns that fit into `total` characters, and the width of each.

    Empty columns are left out. `gap(n)` is the space that n columns need besides their text. If `total` is None, a
    column is as wide as its widest entry of a usual length.
    """
    tensors = [len(row.type) - len(TORCH) for row in rows if row.type.startswith(TORCH)]
    found = {}
    for number, column in enumerate(COLUMNS, 1):
        sizes = [len(row[number]) for row in rows]
        if any(sizes) and (total is None or total >= column.needs):
            found[column.name] = max((size for size in sizes if total is not None or size <= column.usual),
                                     default=column.usual)
    for name, least in SHRINKS:
        excess = 0 if total is None else sum(found.values()) + gap(len(found)) - total
        if excess > 0 and name in found:
            found[name] -= min(excess, max(found[name] - (max([least, *tensors]) if least == SHAPE else least), 0))
    return found
