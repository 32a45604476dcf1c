"""guards: machine code that checks whether the values that a program read besides its arguments are unchanged.

A table holds one record for each place of a `Freshness`: an address, and the pointers expected there. A record that
holds takes a few nanoseconds. If one does not hold, the Python check of that place alone decides: it compares numbers
and contents by value, and knows the objects that a trace replaces meanwhile. The `Freshness` keeps every object alive
whose address is in the table, so that no address is reused.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np

from tapegrad.compile.native.guard_code import (
    ABSENT,
    APART,
    ARRAY,
    ASKED,
    ATTRIBUTE,
    BOUND,
    DICT,
    KEYS,
    LIST,
    SIZE,
    WORD,
)
from tapegrad.compile.native.layouts import LAYOUT, dict_offset
from tapegrad.compile.watch.checks import Array, Members, Plain, Table, Within, is_container
from tapegrad.compile.watch.checks import Sequence as Items
from tapegrad.compile.watch.freshness import Freshness, Missing, Place, Shape
from tapegrad.compile.watch.namespaces import Attributes, Contents, Held, Namespace, Typed
from tapegrad.numbers.object_state import attributes

_KEYS = frozenset([str, int, bytes])  # key types whose hash and comparison run no user code
_PLAIN_KINDS = "biufcSUmM"  # dtype kinds whose content is the bytes of their memory
_FUNCTION = {"__code__": LAYOUT.code, "__defaults__": LAYOUT.defaults, "__kwdefaults__": LAYOUT.kwdefaults,
             "__dict__": LAYOUT.attributes}


class Guards:
    """The guard table of a `Freshness` and of further conditions: `table` is its memory, `ask(number)` runs a Python
    check.
    """

    def __init__(self, fresh: Freshness, conditions: Sequence[Callable[[], bool]] = ()) -> None:
        self.fresh, self.ask = fresh, self._ask  # a bound method, kept as one object
        self._asks: list[tuple[Callable[[Any], bool], Any]] = []
        self._records: list[tuple[int, int, Any, int, int]] = []  # a list as operand stands for its address
        self._held: list[Any] = []  # objects that records point into, besides those that `fresh` keeps alive
        for place in fresh.places:
            self._place(place)
        for shape in fresh.shapes:
            self._shape(shape)
        within = Within(place.same for place in fresh.places)
        for check in within.checks:
            self._items(check)
        for inner, value in within.parts:
            if type(inner) is Table and type(value) is MappingProxyType and not inner.items:
                self._items(inner)
            else:
                self._content(inner, value, (_inner, (inner, value)))
        for condition in conditions:
            self._add((_holds, condition), ASKED)
        self.table = self._written()

    def _ask(self, number: int) -> bool:
        """Run the Python check of a record."""
        check, of = self._asks[number]
        return check(of)

    def _add(self, ask: tuple[Callable[[Any], bool], Any], kind: int, a: int = 0, b: Any = 0, c: int = 0) -> None:
        if not self._asks or self._asks[-1] is not ask:  # two namespaces may be equal
            self._asks.append(ask)
        self._records.append((kind, a, b, c, len(self._asks) - 1))

    def _written(self) -> Any:
        """Return the table as an array of words: the number of records, the records, and the lists they point to."""
        start = 1 + SIZE * len(self._records)
        table = np.zeros(start + sum(len(b) for _, _, b, _, _ in self._records if isinstance(b, list)), np.uint64)
        table[0] = len(self._records)
        address = table.ctypes.data
        for number, (kind, a, b, c, ask) in enumerate(self._records):
            if isinstance(b, list):
                end = start + len(b)
                table[start:end], b, start = b, address + 8 * start, end
            table[1 + SIZE * number:1 + SIZE * (number + 1)] = kind, a, b, c, ask
        return table

    # -- one place

    def _place(self, place: Place) -> None:
        namespace, name, value, same, _ = place
        ask = (_still, place)
        if type(same) is Plain or is_container(same):
            self._stands(ask, namespace, name, value)
            return
        if type(same) is not Array or not self._stands(ask, namespace, name, value):
            self._add(ask, ASKED)
            return
        self._content(same, value, ask)

    def _stands(self, ask: Any, namespace: Any, name: Any, value: Any) -> bool:
        """Add a record that an object is bound at a place; return False if that needs the Python check."""
        table, kind = dict_of(namespace), type(namespace)
        if table is not None and type(name) in _KEYS:
            if value is Missing:
                self._add(ask, ABSENT, id(table), id(name))
            else:
                self._add(ask, BOUND, id(table), id(name), id(value))
            return True
        address = _word_of(namespace, name)
        if not address:
            if (kind in (Attributes, Held, Typed) and type(name) is str and value is not Missing
                    and name != "__dict__"):  # an object's class may compute that one
                self._add(ask, ATTRIBUTE, id(namespace.owner), id(name), id(value))
                return True
            self._add(ask, ASKED)
            return False
        nothing = value is Missing or (value is None and name in _FUNCTION)  # a null pointer
        self._add(ask, WORD, address, 0, 0 if nothing else id(value))
        return True

    def _shape(self, shape: Shape) -> None:
        namespace, _, size, known, keys = shape
        table, lacking = dict_of(namespace), frozenset(self.fresh.names.difference(namespace))
        if table is None and isinstance(namespace, Namespace) and type(namespace).__len__ is Namespace.__len__:
            return  # a namespace that cannot be iterated
        if keys is not None:
            ask: Any = (_has_keys, (namespace, keys))
            if table is None:
                self._add(ask, ASKED)
            else:
                self._add(ask, KEYS, id(table), [id(key) for key in keys for _ in range(2)], len(keys))
            return
        if size >= 0:
            ask = _has_size, (namespace, size)
            if table is None:
                self._add(ask, ASKED)
            else:
                self._add(ask, WORD, id(table) + LAYOUT.used, 0, size)
        if size == known:
            return
        self._held.append(lacking)
        ask = _lacks, (namespace, lacking)
        if table is None:
            self._add(ask, ASKED)
        elif len(table) > len(lacking):
            for name in lacking:
                self._add(ask, ABSENT, id(table), id(name))
        else:
            now = list(table)
            self._held.append(now)
            self._add(ask, APART, id(table), [len(now), id(lacking), *map(id, now)], id(str))

    def _items(self, check: Any) -> None:
        """Add the record for the items of a container."""
        ask, value = (_inner, (check, check.value)), check.value
        table = value if isinstance(value, dict) else dict_of(value)
        if type(check) is Table and table is not None:
            parts = [id(x) for pair in zip(check.keys, check.then) for x in pair]
            self._add(ask, DICT, id(table), parts, len(check.keys))
        elif type(check) is Items and type(value) is list:
            self._add(ask, LIST, id(value), list(map(id, check.then)), len(check.then))
        elif type(check) is Members and type(value) is set and not check.then:
            self._add(ask, WORD, id(value) + LAYOUT.members)
        else:
            self._add(ask, ASKED)

    def _content(self, check: Any, value: Any, ask: Any) -> None:
        """Add the record for the content of an array."""
        copy = memory_of(check, value) if type(check) is Array and type(value) is np.ndarray else None
        if copy is None or not check(value):
            self._add(ask, ASKED)
            return
        self._held.append(copy)
        structure = np.zeros(7, np.uint64)
        structure.view(np.uint8)[:LAYOUT.flags + 4 - LAYOUT.data] = memory(id(value) + LAYOUT.data,
                                                                           LAYOUT.flags + 4 - LAYOUT.data)
        if structure[3] - structure[2] != 8 * value.ndim:
            self._add(ask, ASKED)
            return
        axes = [x & (1 << 64) - 1 for x in (*value.shape, *value.strides)]
        self._add(ask, ARRAY, id(value), [*structure.tolist(), 8 * len(axes), copy.ctypes.data, copy.nbytes, *axes])


def memory(address: int, size: int) -> Any:
    """Return a copy of some bytes of memory."""
    return np.array((ctypes.c_uint8 * size).from_address(address), np.uint8)


def dict_of(namespace: Mapping[Any, Any]) -> dict[Any, Any] | None:
    """Return the dict that a namespace is or wraps; None for another namespace."""
    if type(namespace) is MappingProxyType:
        found = gc.get_referents(namespace)
        return found[0] if len(found) == 1 and type(found[0]) is dict else None
    return namespace if type(namespace) is dict else None


def memory_of(check: Array, value: Any) -> Any:
    """Return a copy of an array's memory at the time of the check; an empty copy if the array is read-only; None if it
    has gaps.
    """
    if value.dtype.kind not in _PLAIN_KINDS or not (value.flags.c_contiguous or value.flags.f_contiguous):
        return None
    if check.bytes is None:
        return np.zeros(0, np.uint8) if check.held is None else check.held
    then = np.frombuffer(check.bytes, np.uint8)
    if value.flags.c_contiguous or not value.size:
        return then
    return np.frombuffer(check.bytes, value.dtype).reshape(value.shape).ravel(order="F").view(np.uint8)


def _word_of(namespace: Any, name: Any) -> int:
    """Return the address of the pointer that a place stands for, 0 if it is not a word of memory."""
    kind: Any = type(namespace)
    if kind is Contents:
        return id(namespace.owner) + LAYOUT.cell
    if kind is Attributes and name == "__class__":
        return id(namespace.owner) + LAYOUT.type
    if kind is Attributes and name == "__dict__":
        return _dict_word(namespace.owner)
    if kind is Typed and name == "__mro__" and isinstance(namespace.owner, type):
        return id(namespace.owner) + LAYOUT.mro
    if kind is Held and type(namespace.owner) is FunctionType:
        if type(name) is int:
            return id((namespace.owner.__closure__ or ())[name]) + LAYOUT.cell
        return id(namespace.owner) + _FUNCTION[name] if name in _FUNCTION else 0
    return 0


def _dict_word(x: Any) -> int:
    """Return the address of the pointer from an object to its `__dict__`, 0 if it is elsewhere."""
    at, own = dict_offset(type(x), LAYOUT), attributes(x)
    return id(x) + at if at and ctypes.c_int64.from_address(id(x) + at).value == id(own) else 0


# -- Python checks of records


def _still(place: Place) -> bool:
    namespace, name, value, same, _ = place
    found = namespace.get(name, Missing)
    return (found is value and (type(same) is Plain or is_container(same))) or same(found)


def _holds(condition: Callable[[], bool]) -> bool:
    return condition()


def _inner(of: tuple[Any, Any]) -> bool:
    check, value = of
    return check(value)  # type: ignore[no-any-return]


def _has_keys(of: tuple[Any, list[Any]]) -> bool:
    namespace, keys = of
    return [*namespace] == keys


def _has_size(of: tuple[Any, int]) -> bool:
    namespace, size = of
    return len(namespace) == size


def _lacks(of: tuple[Any, frozenset[Any]]) -> bool:
    namespace, lacking = of
    return namespace.keys().isdisjoint(lacking)  # type: ignore[no-any-return]
