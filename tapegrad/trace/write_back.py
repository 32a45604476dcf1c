"""write_back: repeats on the originals what a program wrote to the trace's copies, once the call has succeeded.

Writes go to items of lists and dicts, attributes, captured variables, sets and modules' buffers, with plain values in
place of traced ones. A place that held a number by which the call is differentiated, and on which the result depends,
keeps it, and an EffectWarning is given. Arrays among the arguments are never written.
"""

from __future__ import annotations

import dis
import sys
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import is_
from types import CellType, CodeType
from typing import Any, NamedTuple

from tapegrad.errors import Activation, EffectWarning, Location
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.object_state import attributes as own_dict
from tapegrad.numbers.object_state import slot_values
from tapegrad.numbers.tensors import ORDINARY, duplicate, is_memory, is_tensor, overlap
from tapegrad.ops.elementwise import copy, stop_gradient
from tapegrad.ops.structure import unpacked
from tapegrad.ops.write import setitem
from tapegrad.rules.activity import differentiated, sources
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Call, Operation, Tape, has_value
from tapegrad.trace.deferred_writes import NOTHING, AttributeWrite, CellWrite, GroupWrite, RefillWrite, TableWrite
from tapegrad.trace.global_arrays import code_of_program
from tapegrad.trace.interposition import original
from tapegrad.trace.plain_values import PlainValues
from tapegrad.trace.stored_values import Forms, Result, Stored
from tapegrad.trace.views import peek
from tapegrad.tree.copies import KINDS, base_of, class_of, is_empty
from tapegrad.tree.modules import EMPTY, TABLES, is_module
from tapegrad.tree.sparse import is_sparse

CLASS = "__class__"
RETURN = "return it next to the value, has_aux=True"
LOADS = "LOAD_"  # prefix of the instructions that name a container which is written to
# attributes of a traced tensor itself, and the mark of parameters
_OWN = frozenset(["_op", "_val", "_tracer", "_view", "_held", "_made", "_is_param"])
Table = tuple[Any, Any, dict[Any, Any], Any]

_told: set[tuple[str, int, str]] = set()  # (file, line, place) of lost writes that were warned about


class Copies:
    """A trace's copies, with the contents of each when the program began."""

    __slots__ = ("cells", "groups", "holders", "labels", "originals", "slots", "tables")

    def __init__(self, pairs: Sequence[tuple[Any, Any]], labels: dict[int, str]) -> None:
        self.labels, self.originals = labels, {id(new): x for new, x in pairs}
        # (dict of a copy, dict of the original, contents at the start, owner)
        self.tables: list[Table] = []
        self.holders: dict[int, Any] = {}  # id of an attribute dict -> the copy that owns it
        self.groups: list[tuple[Any, Any, list[Any]]] = []  # lists, deques, sets
        self.cells: list[tuple[CellType, CellType, list[Any]]] = []
        self.slots: list[tuple[Any, Any, dict[str, Any]]] = []
        for new, x in pairs:
            kind = type(new)
            if kind is CellType:
                self.cells.append((new, x, _content(new)))
            elif kind is list:
                self.groups.append((new, x, new.copy()))
            elif kind is dict:
                self.tables.append((new, x, new.copy(), x))
            elif hasattr(kind, "_viewed_as"):  # an array of a class: its attributes
                self._table(own_dict(new), own_dict(x), x)
            elif not (isinstance(new, Traced) or is_sparse(x)):  # the caches in SciPy's matrices are SciPy's own
                self._note(new, x)

    def _note(self, new: Any, x: Any) -> None:
        if isinstance(new, dict):
            self._table(new, x, x)
        elif isinstance(new, KINDS):
            self.groups.append((new, x, _items_of(new)))
        own, theirs = own_dict(new), own_dict(x)
        if own is not None:
            self._table(own, theirs, x)
            self.holders[id(own)] = new
            for name, value in theirs.items() if is_module(new) else ():
                if name in TABLES:
                    self._table(own[name], value, x)
                elif type(value) in EMPTY and not value:
                    if isinstance(value, dict):
                        self._table(own[name], value, value)
                    else:
                        self.groups.append((own[name], value, []))
        self.slots.append((new, x, _filled(new)))

    def _table(self, new: Any, x: Any, owner: Any) -> None:
        self.tables.append((new, x, new.copy() if type(new) is dict else dict(base_of(new).items(new)), owner))

    def effects(self, tape: Tape, tracer: Any, given: Sequence[Any], grad: bool) -> Pending | None:
        """Return the program's pending writes, None if there are none; `grad`: the call is differentiated."""
        for number, (new, x, then, owner) in enumerate(self.tables):
            copied = self.holders.get(id(new))
            if copied is not None and (now := own_dict(copied)) is not new:  # the program may exchange them
                self.tables[number] = now, x, then, owner
        tables = [part for part in self.tables if not _is_same(part[0], part[2])]
        groups = [part for part in self.groups
                  if len(now := _items_of(part[0])) != len(part[2]) or not all(map(is_, now, part[2]))]
        cells = [part for part in self.cells if not all(map(is_, now := _content(part[0]), part[2]))
                 or len(now) != len(part[2])]
        slots = [part for part in self.slots if not _is_same(_filled(part[0]), part[2])]
        tensors = list(attributes_of_tensors(tracer, given))
        if not (tables or groups or cells or slots or tensors or tracer.written):
            return None
        effects = _Written(self, tape, tracer, given, differentiated(tape) if grad else ())
        effects.arrays()
        for table in tables:
            effects.table(*table)
        for new, x in tensors:
            there = vars(x)
            effects.table({**there, **new}, there, {**there}, x)
        for attributes in slots:
            effects.attributes(*attributes)
        for group in groups:
            effects.group(*group)
        for cell in cells:
            effects.cell(*cell)
        if not effects.writes and not effects.lost:
            return None
        pending = Pending(effects.writes, effects.lost, tape)
        pending.stored, pending.memory = effects.stored, {key: effects.plain.memory[key] for key in effects.form.inputs}
        return pending


def attributes_of_tensors(tracer: Any, given: Sequence[Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the attributes that the program set on each traced tensor among the inputs, with the tensor."""
    if "torch" not in sys.modules:
        return
    for proxy, x in zip(tracer.inputs, given):
        if type(x) not in ORDINARY and is_tensor(x) and (names := vars(proxy).keys() - _OWN):
            yield {name: vars(proxy)[name] for name in vars(proxy) if name in names}, x


def _items_of(x: Any) -> list[Any]:
    return list(base_of(x).__iter__(x))


def _content(cell: CellType) -> list[Any]:
    return [] if is_empty(cell) else [cell.cell_contents]


def _filled(x: Any) -> dict[str, Any]:
    """Return the values of an object's slots and its class, which a program may assign as well."""
    return {CLASS: class_of(x), **slot_values(x)}


def _is_same(now: dict[Any, Any], then: dict[Any, Any]) -> bool:
    return len(now) == len(then) and all(map(is_, now.values(), then.values())) and all(map(is_, now, then))


class Pending:
    """The writes, with plain values, to be done once a call has succeeded, and the writes that are lost.

    `stored` says for each write how a replay would do it, None if no replay can.
    """

    __slots__ = ("lost", "memory", "stored", "tape", "writes")

    def __init__(self, writes: list[tuple[Callable[[], Any], Place]], lost: list[Place], tape: Tape) -> None:
        self.writes, self.lost, self.tape = writes, lost, tape
        self.stored: list[Stored | None] = [None] * len(writes)
        self.memory: dict[int, tuple[Any, Any]] = {}  # by id of the storage of a written array: (storage, original)

    def settle(self) -> None:
        """Warn of the lost writes and do the others."""
        code = code_of_program(self.tape.ops[0].val)
        program = ("", 0) if code is None else (code.co_filename, code.co_firstlineno)
        for place in self.lost:
            if (key := (*program, place.what)) not in _told:
                where = self.line(place) or Location(*program, "" if code is None else code.co_name)
                warnings.warn_explicit(f"{place.what}\n  try: {place.cure}", EffectWarning, where.file, where.line)
                _told.add(key)
        for write, _ in self.writes:
            if type(write) is RefillWrite:
                self.set_apart(write.x)
            write()

    def set_apart(self, x: Any) -> None:
        """Copy the tape's values that lie in the memory of an array about to be written."""
        for op in self.tape.ops:
            if has_value(op) and overlap(op.val, x):
                op.val = duplicate(op.val)

    def lose(self, why: str) -> Pending:
        """Return the same writes as lost ones, with the reason."""
        lost = [place._replace(what=f"what {place.what} is lost: {why}") for _, place in self.writes]
        return Pending([], [*self.lost, *lost], self.tape)

    def told(self) -> tuple[str, Location | None]:
        """Return a description of the first write and its location."""
        _, place = self.writes[0]
        return place.what, self.line(place)

    def line(self, place: Place) -> Location | None:
        """Return the line that assigns the attribute or variable, or of the value, or one that names the container."""
        where = next((op.where for op in place.ops if op.where is not None), None)
        return where if place.step == LOADS and where is not None else self.named(place) or where

    def named(self, place: Place) -> Location | None:
        """Return the first line with the place's instruction on its name."""
        codes = [op.code.code if isinstance(op.code, Activation) else op.code for op in self.tape.ops[1:]]
        codes = [code_of_program(self.tape.ops[0].val), *codes]
        for code in dict.fromkeys(code for code in codes if type(code) is CodeType) if place.name else ():
            for step in dis.get_instructions(code):
                if step.opname.startswith(place.step) and step.argval == place.name:
                    return Location(code.co_filename, _line(code, step.offset), code.co_name)
        return None


class Place(NamedTuple):
    """A place that is written: its description, the assigned name and the instruction that assigns it, the operations
    of the values, the owner, and what to do if the write is lost.
    """

    what: str
    name: str = ""
    step: str = ""
    ops: Sequence[Operation] = ()
    owner: Any = None
    cure: str = RETURN


class _Written:
    """Collects what a program wrote to its copies."""

    def __init__(self, copies: Copies, tape: Tape, tracer: Any, given: Sequence[Any], wrt: Collection[int]) -> None:
        self.copies, self.tape, self.tracer, self.given = copies, tape, tracer, given
        self.plain = PlainValues(tracer, tape, given, copies.originals)
        result = tape.result
        self.result = {result, *unpacked(result)[0]}
        self.reaches: set[Operation] = set(sources(result, _overwritten))
        self.wrt = wrt
        self.writes: list[tuple[Callable[[], Any], Place]] = []
        self.lost: list[Place] = []
        self.stored: list[Stored | None] = []
        self.form = Forms(tape, tracer, copies.originals)

    # -- what was written where

    def arrays(self) -> None:
        """Collect writes into arrays: arrays kept by objects or functions are written back, arguments never."""
        if not self.tracer.written:
            return
        parts = (*self.tape.structure.parts, *self.tape.structure.kwargs.values())
        kept = {k for part in parts for k in part.kept}
        for k, x in enumerate(self.tracer.inputs):
            if x._view is not None and x._view.storage.lost:
                continue  # it shares the memory of another array, which was written to
            first, final = self.tape.ops[k + 1], peek(x)
            if not is_memory(plain(self.given[k])) or 0 in final.val.shape or _numbers_in(final) is first:
                continue  # an array without numbers holds nothing to write
            label = first.label or "an array"  # type: ignore[attr-defined]
            if k in kept and self.is_differentiated(x, set()):
                cure = "differentiate by arguments alone, argnums=0" if final in self.result else RETURN
                self.lost.append(Place(f"what is written into {label} is lost: the call is differentiated by the "
                                       "numbers that were there before", ops=[final], cure=cure))
            elif k in kept:
                place = Place(f"it writes into {label}", ops=[final], owner=self.given[k])
                self.writes.append((RefillWrite(self.given[k], final.val), place))
                storage = x._view.storage  # other views of this memory get the original's
                self.plain.memory[id(storage)] = storage, self.given[k]
                self.form.inputs[id(storage)] = k
                self.stored.append(Stored(k, None, {...: Result(final, final.val)}))
            elif final not in self.reaches:
                self.lost.append(Place(f"what is written into {label} is lost: an argument of the caller is never "
                                       "written to", ops=[final]))

    def table(self, new: Any, x: Any, then: dict[Any, Any], owner: Any) -> None:
        """Collect the writes to a dict, or to the dict of an object's attributes."""
        found = self.by_originals(base_of(new).items(new))
        there = {key: original(value) for key, value in base_of(x).items(x)}
        then = self.by_originals(then.items())
        kept = {id(then[key]): there[key] for key in then if key in there}
        now: dict[Any, Any] = {}
        forms: dict[Any, Any] = {}
        moved = self.is_moved(found, then, numbers=False)
        for key, value in found.items():
            stays = key in then and (then[key] is value or (not moved and self.keeps(then[key], value, key, owner)))
            if not stays:
                forms[key] = None if isinstance(key, Traced) else self.form(value)
            now[key if key in then else self.plain(key)] = there[key] if stays else self.plain(value, kept)
        whole = [*found] != [*[key for key in then if key in found], *[key for key in found if key not in then]]
        new_keys = [key for key, value in now.items() if there.get(key, NOTHING) is not value]
        if whole or new_keys or len(now) != len(there):
            name = None if x is owner else next((name for name, table in (own_dict(owner) or {}).items() if table is x),
                                                "")
            stored = None if whole or len(now) != len({**there, **now}) else Stored(owner, name, forms)
            self.put(TableWrite(x, now, whole), owner, new_keys[0] if new_keys else "", stored)

    def by_originals(self, items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
        """Return a dict with keys that are copies replaced by their originals."""
        originals = self.copies.originals
        return {originals.get(id(key), key): value for key, value in items}

    def attributes(self, new: Any, x: Any, then: dict[str, Any]) -> None:
        """Collect the writes to an object's slots."""
        now = _filled(new)
        there = _filled(x)
        kept = {id(value): there[name] for name, value in then.items() if name in there}
        moved = self.is_moved(now, then, numbers=False)
        for name in {**then, **now}:
            if name not in now:
                self.put(AttributeWrite(x, NOTHING, name), x, name)
            elif name not in then or (then[name] is not now[name]
                                      and (moved or not self.keeps(then[name], now[name], name, x))):
                stored = Stored(x, "", {name: self.form(now[name])})
                self.put(AttributeWrite(x, self.plain(now[name], kept), name), x, name, stored)

    def group(self, new: Any, x: Any, then: list[Any]) -> None:
        """Collect the writes to a list, a deque, a set or a bytearray."""
        now = _items_of(new)
        before = list(map(original, _items_of(x))) if not isinstance(new, set) else []
        kept = {id(value): known for value, known in zip(then, before)}
        stored = None
        if isinstance(new, (list, deque)) and len(now) >= len(then):
            parts = {i: self.form(a) for i, (a, b) in enumerate(zip(now, then)) if a is not b}
            stored = Stored(x, None, parts, list(map(self.form, now[len(then):])))
        if isinstance(new, (list, deque)) and len(now) == len(then) and not self.is_moved(
                dict(enumerate(now)), dict(enumerate(then))):
            made = [before[i] if a is b or self.keeps(b, a, i, x) else self.plain(a, kept)
                    for i, (a, b) in enumerate(zip(now, then))]
            if stored is not None:
                stored = stored._replace(values={i: x for i, x in stored.values.items() if made[i] is not before[i]})
        else:
            made = [self.plain(value, kept) for value in now]
        if isinstance(new, set) or len(made) != len(before) or not all(map(is_, made, before)):
            self.put(GroupWrite(x, made), x, "", stored)

    def cell(self, new: CellType, x: CellType, then: list[Any]) -> None:
        """Collect the assignment of a captured variable."""
        now = _content(new)
        kept = {id(value): known for value, known in zip(then, _content(x))}
        if not (now and then and self.keeps(then[0], now[0], None, x)):
            stored = Stored(x, None, {...: self.form(now[0])}) if now else None
            self.put(CellWrite(x, self.plain(now[0], kept) if now else NOTHING), x, "", stored)

    # -- places that keep their values

    def keeps(self, then: Any, now: Any, place: Any, owner: Any) -> bool:
        """Return whether a place keeps its number because the call is differentiated by it; note the lost write unless
        the written value is also a result.
        """
        if not self.is_differentiated(then, set()):
            return False
        parts = list(self.plain.traced(now))
        if not parts or not all(peek(x) in self.result for x in parts):
            place = self.place(owner, place, [peek(part) for part in parts])
            self.lost.append(place._replace(what=f"what is written to {place.what} is lost: the call is differentiated "
                                                 "by the number that was there before"))
        return True

    def put(self, write: Callable[[], Any], owner: Any, place: Any, stored: Stored | None = None) -> None:
        """Add a write to a place of an owner."""
        self.stored.append(stored)
        forms = [] if stored is None else [*stored.values.values(), *stored.appended]
        found = self.place(owner, place, [form.op for form in forms if isinstance(form, Result)])
        self.writes.append((write, found._replace(what=f"it writes to {found.what}", owner=owner)))

    def place(self, owner: Any, place: Any, ops: Sequence[Operation] = ()) -> Place:
        """Return the Place of an owner's item, attribute or variable."""
        label = self.copies.labels.get(id(owner), "")
        if type(owner) is CellType:
            return Place(label, label.rpartition(".")[2], "STORE_DEREF", ops)
        if isinstance(owner, (dict, *KINDS)):
            what = f"{label}[{place!r}]" if place != "" else label or f"a {type(owner).__name__}"
            return Place(what, label.rpartition(".")[2].partition("[")[0], LOADS, ops)
        return Place(f"{label}.{place}".lstrip("."), str(place), "STORE_ATTR", ops)

    def is_moved(self, now: Mapping[Any, Any], then: Mapping[Any, Any], numbers: bool = True) -> bool:
        """Return whether copies or numbers moved between places: then every place is written and none keeps its value.
        """
        known: dict[int, set[Any]] = {}
        for place, part in then.items():
            known.setdefault(id(part), set()).add(place)
        return any(place not in known.get(id(part), (place,)) and
                   (numbers if isinstance(part, Traced) else id(part) in self.copies.originals)
                   for place, part in now.items())

    def is_differentiated(self, x: Any, seen: set[int]) -> bool:
        """Return whether `x` holds a number by which the call is differentiated and on which the result depends."""
        if isinstance(x, Traced):
            op = next((op for op, each in zip(self.tape.ops[1:], self.tracer.inputs) if each is x), None)
            return op is not None and op.id - 1 in self.wrt and op in self.reaches and is_inexact(plain(op.val))
        if id(x) in seen:
            return False
        seen.add(id(x))
        if isinstance(x, tuple):
            return any(self.is_differentiated(part, seen) for part in x)
        return any(self.is_differentiated(part, seen) for part in self.before(x))

    def before(self, x: Any) -> Iterator[Any]:
        """Yield what a copy held when the program began."""
        own = own_dict(x) if id(x) in self.copies.originals else None
        for new, _, table, _ in self.copies.tables:
            if new is x or (own is not None and new is own):
                yield from table.values()
        for new, _, items in self.copies.groups:
            if new is x:
                yield from items
        for new, _, slots in self.copies.slots:
            if new is x:
                yield from slots.values()


def _overwritten(op: Operation) -> Operation | None:
    """Return the array that an operation overwrites completely, None if some of its content remains."""
    if op.fn is setitem and not op.kwargs and all(map(_is_everything, op.args[2:])):
        return op.args[0]  # type: ignore[no-any-return]
    return None


def _numbers_in(op: Operation) -> Any:
    """Return the operation that computed an array's numbers: `p.requires_grad_(False)` writes back the same ones."""
    while type(op) is Call and (op.fn in (stop_gradient, copy) or _overwritten(op) is not None):
        op = op.args[0 if op.fn in (stop_gradient, copy) else 1]
    return op


def _is_everything(index: Any) -> bool:
    return index is Ellipsis or (type(index) is slice and index == slice(None))


def _line(code: CodeType, offset: int) -> int:
    return next((line for start, end, line in code.co_lines() if start <= offset < end and line), code.co_firstlineno)


def is_inexact(x: Any) -> bool:
    """Return whether a number, array or tensor has an inexact type."""
    if is_tensor(x):
        return bool(x.is_floating_point() or x.is_complex())
    return not isinstance(x, int) and (not hasattr(x, "dtype") or letter(x.dtype) in INEXACT)


def settle(tape: Tape) -> None:
    """Apply the pending writes of a tape's program after the call has succeeded."""
    structure = tape.structure
    if structure is not None and (effects := structure.effects) is not None:
        structure.effects = None
        effects.settle()
