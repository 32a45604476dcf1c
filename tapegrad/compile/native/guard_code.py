"""guard_code: the LLVM function that checks a table of guards, record by record."""

from __future__ import annotations

from tapegrad.compile.native.layouts import LAYOUT

WORD, BOUND, ABSENT, LIST, DICT, KEYS, APART, ARRAY, ATTRIBUTE, ASKED = range(10)
"""Kinds of records; of each the three operands follow.

WORD    address, -, word: a word of memory
BOUND   dict, key, value: a name is bound to an object
ABSENT  dict, key, -: a name is not bound
LIST    list, items, count: the items of a list
DICT    dict, keys and values by turns, count: the items of a dict, in order
KEYS    dict, keys twice each, count: the keys of a dict, in order
APART   dict, [count, frozenset, keys], type str: no key of a dict is in the set, and none of the known keys is
ARRAY   array, [what its structure holds, its shape and strides, a copy of its memory], -: the numbers of an array
ATTRIBUTE  object, name, value: an attribute is an object
ASKED   -, -, -: only the Python check tells
"""
SIZE = 5  # words of a record: kind, three operands, number of its Python check

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
  br ult i64 %k, %count, label %one, label %fresh
one:
  %offset = mul i64 %k, {SIZE}
  %record = getelementptr i64, ptr %first, i64 %offset
  %kind = load i64, ptr %record
  %a = load ptr, ptr %record[i64 1]
  %b = load ptr, ptr %record[i64 2]
  %c = load i64, ptr %record[i64 3]
  %object = inttoptr i64 %c to ptr
  switch i64 %kind, label %ask_python [
    i64 {WORD}, label %word
    i64 {BOUND}, label %bound
    i64 {ABSENT}, label %absent
    i64 {LIST}, label %list
    i64 {DICT}, label %dict
    i64 {KEYS}, label %dict
    i64 {APART}, label %apart
    i64 {ARRAY}, label %array
    i64 {ATTRIBUTE}, label %attribute ]
good:
  %following = add i64 %k, 1
  br label %next
word:
  %word_found = load i64, ptr %a
  br eq i64 %word_found, %c, label %good, label %ask_python
bound:
  %bound_found = call ptr @PyDict_GetItemWithError(ptr %a, ptr %b)
  br eq ptr %bound_found, %object, label %good, label %ask_python
absent:
  %absent_found = call i32 @PyDict_Contains(ptr %a, ptr %b)
  br eq i32 %absent_found, 0, label %good, label %ask_python

list:
  %size = load i64, ptr %a[i8 {LAYOUT.size}]
  br eq i64 %size, %c, label %list_items, label %ask_python
list_items:
  %items = load ptr, ptr %a[i8 {LAYOUT.items}]
  %bytes = mul i64 %c, 8
  %items_differ = call i32 @memcmp(ptr %items, ptr %b, i64 %bytes)
  br eq i32 %items_differ, 0, label %good, label %ask_python

dict:
  %used = load i64, ptr %a[i8 {LAYOUT.used}]
  store i64 0, ptr %position
  br eq i64 %used, %c, label %dict_next, label %ask_python
dict_next:
  %i = phi i64 [ 0, %dict ], [ %i_next, %dict_one ]
  %dict_more = call i32 @PyDict_Next(ptr %a, ptr %position, ptr %key_at, ptr %value_at)
  br eq i32 %dict_more, 0, label %good, label %dict_inside
dict_inside:
  br ult i64 %i, %c, label %dict_one, label %ask_python
dict_one:
  %i_next = add i64 %i, 1
  %i_key = mul i64 %i, 2
  %then_key_at = getelementptr ptr, ptr %b, i64 %i_key
  %key = load ptr, ptr %key_at
  %value = load ptr, ptr %value_at
  %then_key = load ptr, ptr %then_key_at
  %then_value = load ptr, ptr %then_key_at[ptr 1]
  %keys_alone = icmp eq i64 %kind, {KEYS}
  %key_holds = icmp eq ptr %key, %then_key
  %value_same = icmp eq ptr %value, %then_value
  %value_holds = or i1 %value_same, %keys_alone
  %item_holds = and i1 %key_holds, %value_holds
  br i1 %item_holds, label %dict_next, label %ask_python

apart:
  %known = load i64, ptr %b
  %lacking = load ptr, ptr %b[i64 1]
  %known_keys = getelementptr i64, ptr %b, i64 2
  store i64 0, ptr %position
  br label %apart_next
apart_next:
  %j = phi i64 [ 0, %apart ], [ %j_next, %apart_same ], [ %j_next, %apart_other ]
  %j_next = add i64 %j, 1
  %apart_more = call i32 @PyDict_Next(ptr %a, ptr %position, ptr %key_at, ptr %value_at)
  br eq i32 %apart_more, 0, label %good, label %apart_one
apart_one:
  %apart_key = load ptr, ptr %key_at
  br ult i64 %j, %known, label %apart_same, label %apart_new
apart_same:
  %known_key = load ptr, ptr %known_keys[ptr %j]
  br eq ptr %known_key, %apart_key, label %apart_next, label %apart_new
apart_new:
  %key_type = load ptr, ptr %apart_key[i8 {LAYOUT.type}]
  br eq ptr %key_type, %object, label %apart_other, label %ask_python
apart_other:
  %is_lacking = call i32 @PySet_Contains(ptr %lacking, ptr %apart_key)
  br eq i32 %is_lacking, 0, label %apart_next, label %ask_python

array:
  %structure_differs = call i32 @memcmp(ptr %a[i8 {LAYOUT.data}], ptr %b, i64 {LAYOUT.flags + 4 - LAYOUT.data})
  br eq i32 %structure_differs, 0, label %axes, label %ask_python
axes:
  %axes_found = load ptr, ptr %a[i8 {LAYOUT.shape}]
  %axes_size = load i64, ptr %b[i64 7]
  %axes_differ = call i32 @memcmp(ptr %axes_found, ptr %b[i64 10], i64 %axes_size)
  br eq i32 %axes_differ, 0, label %numbers, label %ask_python
numbers:
  %data = load ptr, ptr %a[i8 {LAYOUT.data}]
  %data_then = load ptr, ptr %b[i64 8]
  %data_size = load i64, ptr %b[i64 9]
  %data_differs = call i32 @memcmp(ptr %data, ptr %data_then, i64 %data_size)
  br eq i32 %data_differs, 0, label %good, label %ask_python

attribute:
  %attribute_found = call ptr @PyObject_GetAttr(ptr %a, ptr %b)
  br eq ptr %attribute_found, null, label %attribute_lacks, label %attribute_there
attribute_there:
  call void @Py_DecRef(ptr %attribute_found)
  br eq ptr %attribute_found, %object, label %good, label %ask_python
attribute_lacks:
  call void @PyErr_Clear()
  br label %ask_python

ask_python:
  %error = call ptr @PyErr_Occurred()
  br ne ptr %error, null, label %stale, label %ask_now
ask_now:
  %number = load i64, ptr %record[i64 4]
  %number_object = call ptr @PyLong_FromLongLong(i64 %number)
  store ptr %number_object, ptr %value_at
  %answer = call ptr @PyObject_Vectorcall(ptr %ask, ptr %value_at, i64 1, ptr null)
  call void @Py_DecRef(ptr %number_object)
  br eq ptr %answer, null, label %stale, label %answered
answered:
  %truth = call i32 @PyObject_IsTrue(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  br eq i32 %truth, 1, label %good, label %stale
fresh:
  ret i1 true
stale:
  ret i1 false
}}

; the same as a function of Python's; what it is made with are the table and its check in Python
define ptr @tapegrad_is_fresh(ptr %self, ptr %args, i64 %count, ptr %names) {{
  %array = load ptr, ptr %self[i8 {LAYOUT.item}]
  %ask = load ptr, ptr %self[i8 {LAYOUT.item + 8}]
  %table = load ptr, ptr %array[i8 {LAYOUT.data}]
  %fresh = call i1 @tapegrad_fresh(ptr %table, ptr %ask)
  %error = call ptr @PyErr_Occurred()
  br ne ptr %error, null, label %failed, label %told
told:
  %number = zext i1 %fresh to i64
  %answer = call ptr @PyBool_FromLong(i64 %number)
  ret ptr %answer
failed:
  ret ptr null
}}
"""
