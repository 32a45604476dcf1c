"""effects: the writes of a compiled path, applied once a call has succeeded. The stored values are results of its tape,
after the program's own; the objects written to are found among the arguments of each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType
from typing import Any, NamedTuple

import numpy as np

from tapegrad.compile.flatten_cache import FlattenedCall
from tapegrad.errors import TapeError
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.object_state import attributes as own_dict
from tapegrad.numbers.tensors import is_memory, is_tensor, to_host
from tapegrad.ops.structure import pack
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Call, Constant, Operation, Tape
from tapegrad.trace.deferred_writes import AttributeWrite, CellWrite, GroupWrite, RefillWrite, TableWrite
from tapegrad.trace.inputs import flatten_call
from tapegrad.trace.stored_values import FIXED, Fixed, Form, Given, Nested, Result, Stored, Thing
from tapegrad.trace.write_back import Pending, Place
from tapegrad.tree.copies import base_of, class_of
from tapegrad.tree.flatten import Structure, Walk, is_leaf
from tapegrad.tree.modules import is_module
from tapegrad.tree.nodes import Container, Leaf, Static
from tapegrad.tree.unchanged import Uncheckable

VAIN = 4  # calls in a row with changed objects, after which no call is kept
Value = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Any]
"""Makes a stored value from a tape's results, a call's leaves, and the objects among its arguments."""


class _Unfit(Exception):
    """No replay can do a write as the program does it."""


class Target(NamedTuple):
    """One write: the number of the object among the arguments and its class (None: the leaf of that number), the table
    of it that is written, the values by key, and the appended values.
    """

    number: int
    cls: type | None
    table: str | None
    values: tuple[tuple[Any, Value], ...]
    appended: tuple[Value, ...]


class Effects:
    """The writes of a compiled path's calls. `join` makes the stored values results of the tape, and `key`
    distinguishes two traces of one path that store different things.
    """

    def __init__(self, pending: Pending, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.f = f
        walks: list[Walk] = []
        flatten_call(f, args, kwargs, walks)
        self.things = _things(walks)
        self.at = {id(x): number for number, x in enumerate(self.things)}
        self.ops: list[Operation] = []
        self.samples: list[Any] = []
        self.key: list[Any] = []
        self.targets: list[Target] = []
        self.why_no_subtape: Place | None = None
        self.changes_key = next((place for write, place in pending.writes if _changes_key(write, place)), None)
        for (write, place), stored in zip(pending.writes, pending.stored):
            try:
                self.targets.append(self._target(write, stored))
            except _Unfit:
                self.why_no_subtape = place
                break
        self.count = len(self.things)
        self.last: FlattenedCall | None = None
        self.vain = 0
        self.things, self.at = [], {}  # belong to this call only
        self.kinds = list(map(_as_kind, self.samples))

    def release(self) -> None:
        """Drop the references to the trace."""
        self.ops, self.samples = [], []

    # -- the writes

    def _target(self, write: Any, stored: Stored | None) -> Target:
        if stored is None:
            raise _Unfit
        if type(write) is RefillWrite:
            self.key.append(("buffer", stored.owner))
            return Target(stored.owner, None, None, ((..., self._value(stored.values[...])),), ())
        number = self.at.get(id(stored.owner))
        if number is None:
            raise _Unfit
        kind: Any = CellWrite if type(write) is CellWrite else AttributeWrite if type(write) is AttributeWrite else None
        self.key.append((number, kind, stored.table, *map(_key_of, stored.values), len(stored.appended)))
        values = tuple([(key, self._value(value)) for key, value in stored.values.items()])
        return Target(number, class_of(stored.owner), stored.table if kind is not AttributeWrite else "slots", values,
                      tuple(map(self._value, stored.appended)))

    def _value(self, x: Form | None) -> Value:
        """Return a function that makes a stored value from a call's results."""
        if isinstance(x, Fixed):
            value = x.value
            self.key.append((type(value), repr(value)))
            return lambda results, leaves, things: value
        if isinstance(x, Given):
            leaf = x.number
            self.key.append(("input", leaf))
            return lambda results, leaves, things: leaves[leaf]
        if isinstance(x, Thing) and (thing := self.at.get(id(x.original))) is not None:
            self.key.append(("thing", thing))
            return lambda results, leaves, things: things[thing]
        if isinstance(x, Result):
            return self._of_result(x)
        if isinstance(x, Nested):
            self.key.append((x.kind, len(x.parts), *map(_key_of, x.keys)))
            parts, kind, keys = list(map(self._value, x.parts)), x.kind, x.keys
            if kind is dict:
                return lambda *call: dict(zip(keys, [make(*call) for make in parts]))
            return lambda *call: kind([make(*call) for make in parts])
        raise _Unfit

    def _of_result(self, x: Result) -> Value:
        if x.op not in self.ops:
            self.ops.append(x.op)
            self.samples.append(x.sample)
        number = self.ops.index(x.op)
        self.key.append(("result", number, type(x.sample)))
        return lambda results, leaves, things: results[number]

    # -- the result of the tape

    def join(self, tape: Tape) -> None:
        """Make the program's value and the stored values the result of a tape."""
        result = tape.result
        parts: list[Any] = [result]
        spec: Any = Leaf(0)
        if result.fn is pack:
            parts, spec = list(result.args), result.kwargs["into"].spec
        elif type(result) is Constant and not is_leaf(result.val):
            parts, spec = [], Static(result.val)
        count = len(parts)
        stored = _nest([Leaf(number) for number in range(count, count + len(self.ops))])
        whole = _nest([spec, stored])
        into = Structure(whole, 0, count + len(self.ops), {})
        value = (result.val, tuple(self.samples))
        origin = Origin("result and what is stored")
        tape.result = tape.push(Call(pack, (*parts, *self.ops), {"into": into}, value, origin))

    # -- calls

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]] | None:
        """Return the leaves of a call and the objects among its arguments; None if these do not fit the writes."""
        last = self.last
        if last is not None:
            try:
                if (known := last.leaves_of(args, kwargs)) is not None:
                    self.vain = 0
                    return known, last.things
            except Uncheckable:
                pass
        self.vain += 1
        walks: list[Walk] = []
        try:
            _, leaves, _ = flatten_call(self.f, args, kwargs, walks)
            if self.vain <= VAIN:
                self.last = FlattenedCall(self.f, args, kwargs)
        except TapeError:
            return None
        except Uncheckable:
            self.vain = VAIN
        things = _things(walks)
        if len(things) != self.count or any(target.cls is not None and class_of(things[target.number]) is not target.cls
                                            for target in self.targets):
            return None
        return leaves, things

    def settle(self, results: Sequence[Any], leaves: Sequence[Any], things: Sequence[Any]) -> None:
        """Apply the writes of a call."""
        results = [as_kind(x) for as_kind, x in zip(self.kinds, results)]
        made = [([(key, make(results, leaves, things)) for key, make in target.values],
                 [make(results, leaves, things) for make in target.appended]) for target in self.targets]
        for target, (values, appended) in zip(self.targets, made):
            if target.cls is None:
                RefillWrite(leaves[target.number], values[0][1])()
            else:
                _write(things[target.number], target.table, values, appended)


def apart(result: Any, sweeps: bool) -> tuple[Any, Any]:
    """Split a result: return the program's own result, or its gradient, and the stored values."""
    if not sweeps:
        return result  # type: ignore[no-any-return]
    (value, stored), gradients = result
    return (value, gradients), stored


def _write(x: Any, table: str | None, values: Sequence[tuple[Any, Any]], appended: Sequence[Any]) -> None:
    if type(x) is CellType:
        CellWrite(x, values[0][1])()
        return
    if table == "slots":
        for name, value in values:
            AttributeWrite(x, value, name)()
        return
    holder = x if table is None else own_dict(x) if not table else own_dict(x)[table]  # type: ignore[index]
    base = base_of(holder)
    for key, value in values:
        base.__setitem__(holder, key, value)
    if appended:
        base.extend(holder, appended)


def _changes_key(write: Any, place: Place) -> bool:
    """Return whether a write changes what the next call is specialised to: the length of a container, a flag or name,
    or a number of a module that is not an input.
    """
    if isinstance(write, TableWrite):
        static = FIXED if is_module(place.owner) else FIXED - PYTHON | {bool}
        return any(key not in write.x or (value is not write.x[key] and type(value) in static and value != write.x[key])
                   for key, value in write.value.items())
    return isinstance(write, GroupWrite) and len(write.value) > len(write.x)


def _things(walks: Sequence[Walk]) -> list[Any]:
    return [x for walk in walks for x, _ in walk.keep]


def _key_of(key: Any) -> Any:
    return (type(key), key) if type(key) in FIXED else id(key)


def _nest(children: list[Any]) -> Container:
    """Return the node of a tuple."""
    node = Container(tuple([None] * len(children)))
    node.children, node.leafy = children, True
    return node


def _as_kind(sample: Any) -> Callable[[Any], Any]:
    """Return a conversion of a result to the kind of number that the program stores; a backend may return tensors."""
    kind = type(sample)
    if is_tensor(sample):
        device = sample.device
        return lambda x: x.to(device)
    if is_memory(sample):
        return lambda x: to_host(x) if is_tensor(x) else x
    if isinstance(sample, np.generic):
        return lambda x: kind(x.item()) if is_tensor(x) else x
    return lambda x: kind(x.item()) if is_tensor(x) or isinstance(x, np.generic) else x
