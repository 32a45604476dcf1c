"""guard_code: the function in LLVM IR that checks a table of guards, record by record."""

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
SIZE = 5  # words of a record: kind, operands, number of its Python check

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
  %offset = mul i64 %k, {SIZE}
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
    i64 {ARRAY}, label %array
    i64 {ATTRIBUTE}, label %attribute ]
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

attribute:
  %attribute_found = call ptr @PyObject_GetAttr(ptr %a, ptr %b)
  %attribute_none = icmp eq ptr %attribute_found, null
  br i1 %attribute_none, label %attribute_lacks, label %attribute_there
attribute_there:
  call void @Py_DecRef(ptr %attribute_found)
  %attribute_holds = icmp eq ptr %attribute_found, %object
  br i1 %attribute_holds, label %good, label %ask_python
attribute_lacks:
  call void @PyErr_Clear()
  br label %ask_python

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
