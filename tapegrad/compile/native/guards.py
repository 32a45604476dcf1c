"""guards: the check in machine code that what a program read besides its arguments is what it was.

A table holds one record for each place that a `Freshness` looks at: which memory, and which pointers stand there. A
record that holds takes a few nanoseconds. Where one does not hold, the Python check of that place alone answers: it
knows equal numbers, equal contents, and what a trace replaces meanwhile. The `Freshness` keeps every object alive whose
address is in the table, so that no address is used again.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np

from tapegrad.compile.native.layouts import LAYOUT
from tapegrad.compile.watch.checks import Array, Plain, Sequence, Table, Within, is_container
from tapegrad.compile.watch.freshness import Freshness, Missing, Place, Shape
from tapegrad.compile.watch.namespaces import Attributes, Contents, Held, Namespace, Typed

WORD, BOUND, ABSENT, LIST, DICT, KEYS, APART, ARRAY, ASKED = range(9)
"""Kinds of records; of each the three operands follow.

WORD    address, -, word: a word of memory
BOUND   dict, key, value: a name is bound to an object
ABSENT  dict, key, -: a name is not bound
LIST    list, items, count: the items of a list
DICT    dict, keys and values by turns, count: the items of a dict, in order
KEYS    dict, keys twice each, count: the keys of a dict, in order
APART   dict, [count, frozenset, keys], type str: no key of a dict is in the set, and none of the known keys is
ARRAY   array, [what its structure holds, its shape and strides, a copy of its memory], -: the numbers of an array
ASKED   -, -, -: only the Python check tells
"""
_SIZE = 5  # words of a record: kind, operands, number of its Python check
_KEYS = frozenset([str, int, bytes])  # types of keys that are hashed and compared without the program's code
_PLAIN_KINDS = "biufcSUmM"  # of dtypes that nothing changes
_FUNCTION = {"__code__": LAYOUT.code, "__defaults__": LAYOUT.defaults, "__kwdefaults__": LAYOUT.kwdefaults}

GUARDS = f"""
; whether all records of a table hold; false with an error set where a check in Python raises
define i1 @tapegrad_fresh(ptr %table, ptr %ask) {{
entry:
  %position = alloca i64
  %key_at = alloca ptr
  %value_at = alloca ptr
  %count = load i64, ptr %table
  %first = getelementptr i64, ptr %table, i64 1
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %following, %good ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %fresh
one:
  %offset = mul i64 %k, {_SIZE}
  %record = getelementptr i64, ptr %first, i64 %offset
  %a_at = getelementptr i64, ptr %record, i64 1
  %b_at = getelementptr i64, ptr %record, i64 2
  %c_at = getelementptr i64, ptr %record, i64 3
  %kind = load i64, ptr %record
  %a = load ptr, ptr %a_at
  %b = load ptr, ptr %b_at
  %c = load i64, ptr %c_at
  %object = inttoptr i64 %c to ptr
  switch i64 %kind, label %ask_python [
    i64 {WORD}, label %word
    i64 {BOUND}, label %bound
    i64 {ABSENT}, label %absent
    i64 {LIST}, label %list
    i64 {DICT}, label %dict
    i64 {KEYS}, label %dict
    i64 {APART}, label %apart
    i64 {ARRAY}, label %array ]
good:
  %following = add i64 %k, 1
  br label %next
word:
  %word_found = load i64, ptr %a
  %word_holds = icmp eq i64 %word_found, %c
  br i1 %word_holds, label %good, label %ask_python
bound:
  %bound_found = call ptr @PyDict_GetItemWithError(ptr %a, ptr %b)
  %bound_holds = icmp eq ptr %bound_found, %object
  br i1 %bound_holds, label %good, label %ask_python
absent:
  %absent_found = call i32 @PyDict_Contains(ptr %a, ptr %b)
  %absent_holds = icmp eq i32 %absent_found, 0
  br i1 %absent_holds, label %good, label %ask_python

list:
  %size_at = getelementptr i8, ptr %a, i64 {LAYOUT.size}
  %size = load i64, ptr %size_at
  %size_holds = icmp eq i64 %size, %c
  br i1 %size_holds, label %list_items, label %ask_python
list_items:
  %items_at = getelementptr i8, ptr %a, i64 {LAYOUT.items}
  %items = load ptr, ptr %items_at
  %bytes = mul i64 %c, 8
  %items_differ = call i32 @memcmp(ptr %items, ptr %b, i64 %bytes)
  %items_hold = icmp eq i32 %items_differ, 0
  br i1 %items_hold, label %good, label %ask_python

dict:
  %used_at = getelementptr i8, ptr %a, i64 {LAYOUT.used}
  %used = load i64, ptr %used_at
  %used_holds = icmp eq i64 %used, %c
  store i64 0, ptr %position
  br i1 %used_holds, label %dict_next, label %ask_python
dict_next:
  %i = phi i64 [ 0, %dict ], [ %i_next, %dict_one ]
  %dict_more = call i32 @PyDict_Next(ptr %a, ptr %position, ptr %key_at, ptr %value_at)
  %dict_done = icmp eq i32 %dict_more, 0
  br i1 %dict_done, label %good, label %dict_inside
dict_inside:
  %i_inside = icmp ult i64 %i, %c
  br i1 %i_inside, label %dict_one, label %ask_python
dict_one:
  %i_next = add i64 %i, 1
  %i_key = mul i64 %i, 2
  %then_key_at = getelementptr ptr, ptr %b, i64 %i_key
  %then_value_at = getelementptr ptr, ptr %then_key_at, i64 1
  %key = load ptr, ptr %key_at
  %value = load ptr, ptr %value_at
  %then_key = load ptr, ptr %then_key_at
  %then_value = load ptr, ptr %then_value_at
  %keys_alone = icmp eq i64 %kind, {KEYS}
  %key_holds = icmp eq ptr %key, %then_key
  %value_same = icmp eq ptr %value, %then_value
  %value_holds = or i1 %value_same, %keys_alone
  %item_holds = and i1 %key_holds, %value_holds
  br i1 %item_holds, label %dict_next, label %ask_python

apart:
  %known = load i64, ptr %b
  %lacking_at = getelementptr i64, ptr %b, i64 1
  %lacking = load ptr, ptr %lacking_at
  %known_keys = getelementptr i64, ptr %b, i64 2
  store i64 0, ptr %position
  br label %apart_next
apart_next:
  %j = phi i64 [ 0, %apart ], [ %j_next, %apart_same ], [ %j_next, %apart_other ]
  %j_next = add i64 %j, 1
  %apart_more = call i32 @PyDict_Next(ptr %a, ptr %position, ptr %key_at, ptr %value_at)
  %apart_done = icmp eq i32 %apart_more, 0
  br i1 %apart_done, label %good, label %apart_one
apart_one:
  %apart_key = load ptr, ptr %key_at
  %j_inside = icmp ult i64 %j, %known
  br i1 %j_inside, label %apart_same, label %apart_new
apart_same:
  %known_at = getelementptr ptr, ptr %known_keys, i64 %j
  %known_key = load ptr, ptr %known_at
  %is_known = icmp eq ptr %known_key, %apart_key
  br i1 %is_known, label %apart_next, label %apart_new
apart_new:
  %key_type_at = getelementptr i8, ptr %apart_key, i64 {LAYOUT.type}
  %key_type = load ptr, ptr %key_type_at
  %is_text = icmp eq ptr %key_type, %object
  br i1 %is_text, label %apart_other, label %ask_python
apart_other:
  %is_lacking = call i32 @PySet_Contains(ptr %lacking, ptr %apart_key)
  %is_apart = icmp eq i32 %is_lacking, 0
  br i1 %is_apart, label %apart_next, label %ask_python

array:
  %structure = getelementptr i8, ptr %a, i64 {LAYOUT.data}
  %structure_differs = call i32 @memcmp(ptr %structure, ptr %b, i64 {LAYOUT.flags + 4 - LAYOUT.data})
  %structure_holds = icmp eq i32 %structure_differs, 0
  br i1 %structure_holds, label %axes, label %ask_python
axes:
  %axes_at = getelementptr i8, ptr %a, i64 {LAYOUT.shape}
  %axes_found = load ptr, ptr %axes_at
  %axes_size_at = getelementptr i64, ptr %b, i64 7
  %axes_size = load i64, ptr %axes_size_at
  %axes_then = getelementptr i64, ptr %b, i64 10
  %axes_differ = call i32 @memcmp(ptr %axes_found, ptr %axes_then, i64 %axes_size)
  %axes_hold = icmp eq i32 %axes_differ, 0
  br i1 %axes_hold, label %numbers, label %ask_python
numbers:
  %data_at = getelementptr i8, ptr %a, i64 {LAYOUT.data}
  %data = load ptr, ptr %data_at
  %data_then_at = getelementptr i64, ptr %b, i64 8
  %data_then = load ptr, ptr %data_then_at
  %data_size_at = getelementptr i64, ptr %b, i64 9
  %data_size = load i64, ptr %data_size_at
  %data_differs = call i32 @memcmp(ptr %data, ptr %data_then, i64 %data_size)
  %data_holds = icmp eq i32 %data_differs, 0
  br i1 %data_holds, label %good, label %ask_python

ask_python:
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %stale, label %ask_now
ask_now:
  %number_at = getelementptr i64, ptr %record, i64 4
  %number = load i64, ptr %number_at
  %number_object = call ptr @PyLong_FromLongLong(i64 %number)
  store ptr %number_object, ptr %value_at
  %answer = call ptr @PyObject_Vectorcall(ptr %ask, ptr %value_at, i64 1, ptr null)
  call void @Py_DecRef(ptr %number_object)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %stale, label %answered
answered:
  %truth = call i32 @PyObject_IsTrue(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  %yes = icmp eq i32 %truth, 1
  br i1 %yes, label %good, label %stale
fresh:
  ret i1 true
stale:
  ret i1 false
}}

; the same as a function of Python's; what it is made with are the table and its check in Python
define ptr @tapegrad_is_fresh(ptr %self, ptr %args, i64 %count, ptr %names) {{
  %array_at = getelementptr i8, ptr %self, i64 {LAYOUT.item}
  %ask_at = getelementptr i8, ptr %self, i64 {LAYOUT.item + 8}
  %array = load ptr, ptr %array_at
  %ask = load ptr, ptr %ask_at
  %table_at = getelementptr i8, ptr %array, i64 {LAYOUT.data}
  %table = load ptr, ptr %table_at
  %fresh = call i1 @tapegrad_fresh(ptr %table, ptr %ask)
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %failed, label %told
told:
  %number = zext i1 %fresh to i64
  %answer = call ptr @PyBool_FromLong(i64 %number)
  ret ptr %answer
failed:
  ret ptr null
}}
"""


class Guards:
    """The table of a `Freshness`: `table` is its memory, `ask` the check in Python of one of its places by number."""

    def __init__(self, fresh: Freshness) -> None:
        self.fresh = fresh
        self._asks: list[tuple[Callable[[Any], bool], Any]] = []
        self._records: list[tuple[int, int, Any, int, int]] = []  # a list, an operand, stands for its address
        self._held: list[Any] = []  # what records point into besides what `fresh` holds
        for place in fresh.places:
            self._place(place)
        for shape in fresh.shapes:
            self._shape(shape)
        within = Within(place.same for place in fresh.places)
        for check in within.checks:
            self._items(check)
        for inner, value in within.parts:
            self._content(inner, value, (_inner, (inner, value)))
        self.table = self._written()

    def ask(self, number: int) -> bool:
        """Return what the Python check of a record says."""
        check, of = self._asks[number]
        return check(of)

    def _add(self, ask: tuple[Callable[[Any], bool], Any], kind: int, a: int = 0, b: Any = 0, c: int = 0) -> None:
        if self._asks[-1:] != [ask]:
            self._asks.append(ask)
        self._records.append((kind, a, b, c, len(self._asks) - 1))

    def _written(self) -> Any:
        """Return the table as an array of words: the number of records, these, and the lists that they point to."""
        start = 1 + _SIZE * len(self._records)
        table = np.zeros(start + sum(len(b) for _, _, b, _, _ in self._records if isinstance(b, list)), np.uint64)
        table[0] = len(self._records)
        address = table.ctypes.data
        for number, (kind, a, b, c, ask) in enumerate(self._records):
            if isinstance(b, list):
                end = start + len(b)
                table[start:end], b, start = b, address + 8 * start, end
            table[1 + _SIZE * number:1 + _SIZE * (number + 1)] = kind, a, b, c, ask
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
        """Add a record by which an object stands in a place; return whether it is more than a question in Python."""
        table = dict_of(namespace)
        if table is not None and type(name) in _KEYS:
            if value is Missing:
                self._add(ask, ABSENT, id(table), id(name))
            else:
                self._add(ask, BOUND, id(table), id(name), id(value))
            return True
        address = _word_of(namespace, name)
        if not address:
            self._add(ask, ASKED)
            return False
        nothing = value is Missing or (value is None and name in _FUNCTION)  # a null pointer
        self._add(ask, WORD, address, 0, 0 if nothing else id(value))
        return True

    def _shape(self, shape: Shape) -> None:
        namespace, _, size, known, keys = shape
        table, lacking = dict_of(namespace), frozenset(self.fresh.names.difference(namespace))
        if table is None and isinstance(namespace, Namespace) and type(namespace).__len__ is Namespace.__len__:
            return  # one that nobody can go through
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
        """Add the record of what is in a container."""
        ask, value = (_inner, (check, check.value)), check.value
        if type(check) is Table and isinstance(value, dict):
            parts = [id(x) for pair in zip(check.keys, check.then) for x in pair]
            self._add(ask, DICT, id(value), parts, len(check.keys))
        elif type(check) is Sequence and type(value) is list:
            self._add(ask, LIST, id(value), list(map(id, check.then)), len(check.then))
        else:
            self._add(ask, ASKED)

    def _content(self, check: Any, value: Any, ask: Any) -> None:
        """Add the record of what is in an array."""
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
    """Return the dict that a namespace is, or shows; None for another."""
    if type(namespace) is MappingProxyType:
        found = gc.get_referents(namespace)
        return found[0] if len(found) == 1 and type(found[0]) is dict else None
    return namespace if type(namespace) is dict else None


def memory_of(check: Array, value: Any) -> Any:
    """Return a copy of the memory of an array as it was when the check was made; an empty one of an array that nobody
    can write to; None where it has gaps.
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
    """Return the address of the pointer to what stands in a place; 0 where that is no word of memory."""
    kind: Any = type(namespace)
    if kind is Contents:
        return id(namespace.owner) + LAYOUT.cell
    if kind is Attributes and name == "__class__":
        return id(namespace.owner) + LAYOUT.type
    if kind is Typed and name == "__mro__" and isinstance(namespace.owner, type):
        return id(namespace.owner) + LAYOUT.mro
    if kind is Held and type(namespace.owner) is FunctionType:
        if type(name) is int:
            return id((namespace.owner.__closure__ or ())[name]) + LAYOUT.cell
        return id(namespace.owner) + _FUNCTION[name] if name in _FUNCTION else 0
    return 0


# -- what the Python check of a record asks


def _still(place: Place) -> bool:
    namespace, name, value, same, _ = place
    found = namespace.get(name, Missing)
    return (found is value and (type(same) is Plain or is_container(same))) or same(found)


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
