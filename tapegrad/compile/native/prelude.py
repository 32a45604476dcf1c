"""prelude: LLVM functions by which native code handles Python objects, compiled once.

They are written with two shorthands, which `spelled_out` expands: `ptr %p[i8 16]` is the address of element 16 of type
i8 behind a pointer, and `br eq i64 %a, %b, label %yes, label %no` compares before it branches.

Native code gets its objects from a tuple, which is the PyCFunction's `self`. Its references are held in slots, and are
released when it returns.
"""

from __future__ import annotations

import re

from tapegrad.compile.native.layouts import LAYOUT

TROUBLE, UNDERFLOW = 13, 16  # exception flags: invalid, division by zero, overflow; underflow

_ADDRESS = re.compile(r"ptr (%\w+)\[(\w+) ([^\]]+)\]")
_BRANCH = re.compile(r"  br (eq|ne|[us][lg][te]) (.+?), (label .*)")


def spelled_out(text: str) -> str:
    """Return text in plain LLVM IR.

    >>> print(spelled_out("  br eq ptr %a, null, label %x, label %y"))
      %holds0 = icmp eq ptr %a, null
      br i1 %holds0, label %x, label %y
    """
    lines: list[str] = []
    for line in text.split("\n"):
        while found := _ADDRESS.search(line):
            address = f"%address{len(lines)}"
            lines.append(f"  {address} = getelementptr {found[2]}, ptr {found[1]}, i64 {found[3]}")
            line = f"{line[:found.start()]}ptr {address}{line[found.end():]}"
        if found := _BRANCH.fullmatch(line):
            holds = f"%holds{len(lines)}"
            lines.append(f"  {holds} = icmp {found[1]} {found[2]}")
            line = f"  br i1 {holds}, {found[3]}"
        lines.append(line)
    return "\n".join(lines)


PYTHON = """
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyComplex_FromDoubles(double, double)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()
declare i32 @PyErr_CheckSignals()
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @PyArray_NewCopy(ptr, i32)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Contains(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PySet_Contains(ptr, ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare i32 @PyGC_Disable()
declare i32 @PyGC_Enable()
declare ptr @PyType_GenericNew(ptr, ptr, ptr)
declare i32 @PyObject_GenericSetAttr(ptr, ptr, ptr)
declare ptr @PyDict_Copy(ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
"""
"""The functions of CPython, NumPy and LLVM that native code calls."""
VECTORCALL = f"""
declare ptr @_PyObject_MakeTpCall(ptr, ptr, ptr, i64, ptr)
declare ptr @PyThreadState_Get()

define ptr @vectorcall(ptr %function, ptr %args, i64 %count, ptr %names) {{
  %type = load ptr, ptr %function[i8 {LAYOUT.type}]
  %flags = load i64, ptr %type[i8 {LAYOUT.class_flags}]
  %flag = and i64 %flags, {1 << 11}
  br ne i64 %flag, 0, label %look, label %other
look:
  %offset = load i64, ptr %type[i8 {LAYOUT.vectorcall}]
  %call = load ptr, ptr %function[i8 %offset]
  br ne ptr %call, null, label %fast, label %other
fast:
  %answer = call ptr %call(ptr %function, ptr %args, i64 %count, ptr %names)
  ret ptr %answer
other:
  %thread = call ptr @PyThreadState_Get()
  %made = call ptr @_PyObject_MakeTpCall(ptr %thread, ptr %function, ptr %args, i64 %count, ptr %names)
  ret ptr %made
}}
"""
"""PyObject_Vectorcall, which Python 3.10 defines only in its headers."""
PRELUDE = f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

; what computing has told of itself since `quiet`
define i32 @tapegrad_flags() {{
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %all = load volatile i32, ptr %place
  ret i32 %all
}}

define void @tapegrad_quiet() {{
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %all = load volatile i32, ptr %place
  %told = and i32 %all, {TROUBLE | UNDERFLOW}
  br ne i32 %told, 0, label %clear, label %done
clear:
  %none = and i32 %all, {~63 & 0xFFFFFFFF}
  store volatile i32 %none, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  br label %done
done:
  ret void
}}

; a call of Python's; null where it raises, and where there was trouble before: NumPy would forget that
define ptr @tapegrad_invoke(ptr %function, ptr %args, i64 %count) {{
  %told = call i32 @tapegrad_flags()
  %bad = and i32 %told, {TROUBLE}
  br ne i32 %bad, 0, label %no, label %yes
yes:
  %found = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %count, ptr null)
  ret ptr %found
no:
  ret ptr null
}}

; a call that native code leaves, made in Python: by the first object of its tuple, unless that is the second one, which
; says that somebody else makes it. An error of the third one's class is the program's own. Where something was drawn,
; `after` says of it, and of the first object, what makes the call
define ptr @tapegrad_leave(ptr %self, ptr %args, i64 %count, ptr %names, ptr %after, ptr %drawn) {{
  %both = alloca [2 x ptr]
  %straight = load ptr, ptr %self[i8 {LAYOUT.item}]
  %left = load ptr, ptr %self[i8 {LAYOUT.item + 8}]
  %error = call ptr @PyErr_Occurred()
  br ne ptr %error, null, label %raised, label %again
raised:
  %ordinary = load ptr, ptr %self[i8 {LAYOUT.item + 16}]
  %forgive = call i32 @PyErr_ExceptionMatches(ptr %ordinary)
  br ne i32 %forgive, 0, label %forget, label %raise
raise:
  call void @Py_DecRef(ptr %drawn)
  ret ptr null
forget:
  call void @PyErr_Clear()
  br label %again
again:
  br eq ptr %drawn, null, label %nothing, label %something
nothing:
  call void @Py_IncRef(ptr %straight)
  br label %known
something:
  store ptr %drawn, ptr %both
  store ptr %straight, ptr %both[ptr 1]
  %then = call ptr @PyObject_Vectorcall(ptr %after, ptr %both, i64 2, ptr null)
  call void @Py_DecRef(ptr %drawn)
  br eq ptr %then, null, label %failed, label %known
failed:
  ret ptr null
known:
  %call = phi ptr [ %straight, %nothing ], [ %then, %something ]
  br eq ptr %call, %left, label %tell, label %make
tell:
  ret ptr %call
make:
  %answer = call ptr @PyObject_Vectorcall(ptr %call, ptr %args, i64 %count, ptr %names)
  call void @Py_DecRef(ptr %call)
  ret ptr %answer
}}

; take an object into a slot
define i1 @tapegrad_hold(ptr %slot, ptr %object) {{
  store ptr %object, ptr %slot
  %there = icmp ne ptr %object, null
  ret i1 %there
}}

define void @tapegrad_release(ptr %slots, i64 %count) {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %following, %one ]
  br ult i64 %k, %count, label %one, label %done
one:
  %slot = getelementptr ptr, ptr %slots, i64 %k
  %held = load ptr, ptr %slot
  store ptr null, ptr %slot
  call void @Py_DecRef(ptr %held)
  %following = add i64 %k, 1
  br label %next
done:
  ret void
}}

; an array exactly, of a dtype and a shape
define i1 @tapegrad_is_array(ptr %object, ptr %type, ptr %dtype, i32 %ndim, ptr %shape) {{
entry:
  %type_found = load ptr, ptr %object[i8 {LAYOUT.type}]
  br eq ptr %type_found, %type, label %array, label %no
array:
  %dtype_found = load ptr, ptr %object[i8 {LAYOUT.dtype}]
  %dtype_fits = icmp eq ptr %dtype_found, %dtype
  %ndim_found = load i32, ptr %object[i8 {LAYOUT.ndim}]
  %ndim_fits = icmp eq i32 %ndim_found, %ndim
  %both = and i1 %dtype_fits, %ndim_fits
  br i1 %both, label %axes, label %no
axes:
  %shape_found = load ptr, ptr %object[i8 {LAYOUT.shape}]
  %axes_size = mul i32 %ndim, 8
  %size = zext i32 %axes_size to i64
  %differ = call i32 @memcmp(ptr %shape_found, ptr %shape, i64 %size)
  %same = icmp eq i32 %differ, 0
  ret i1 %same
no:
  ret i1 false
}}

; the elements of an array, row by row and aligned: its own, or those of a copy in the slot; null where there is none
define ptr @tapegrad_elements(ptr %array, ptr %slot) {{
  %flags = load i32, ptr %array[i8 {LAYOUT.flags}]
  %lies = and i32 %flags, 257
  br eq i32 %lies, 257, label %there, label %copy
there:
  %there_data = load ptr, ptr %array[i8 {LAYOUT.data}]
  ret ptr %there_data
copy:
  %new = call ptr @PyArray_NewCopy(ptr %array, i32 0)
  store ptr %new, ptr %slot
  br eq ptr %new, null, label %no, label %copied
copied:
  %copied_data = load ptr, ptr %new[i8 {LAYOUT.data}]
  ret ptr %copied_data
no:
  ret ptr null
}}

define void @tapegrad_keep(ptr %slot, ptr %object) {{
  call void @Py_IncRef(ptr %object)
  store ptr %object, ptr %slot
  ret void
}}

; the values of a dict, if its keys are these in their order
define i1 @tapegrad_values(ptr %dict, ptr %keys, i64 %count, ptr %values) {{
entry:
  %position = alloca i64
  %key_at = alloca ptr
  %value_at = alloca ptr
  %used = load i64, ptr %dict[i8 {LAYOUT.used}]
  store i64 0, ptr %position
  br eq i64 %used, %count, label %next, label %no
next:
  %k = phi i64 [ 0, %entry ], [ %following, %take ]
  %more = call i32 @PyDict_Next(ptr %dict, ptr %position, ptr %key_at, ptr %value_at)
  br eq i32 %more, 0, label %end, label %inside
inside:
  br ult i64 %k, %count, label %one, label %no
one:
  %key = load ptr, ptr %key_at
  %wanted = load ptr, ptr %keys[ptr %k]
  br eq ptr %key, %wanted, label %take, label %compare
compare:
  %key_type = load ptr, ptr %key[i8 {LAYOUT.type}]
  %wanted_type = load ptr, ptr %wanted[i8 {LAYOUT.type}]
  br eq ptr %key_type, %wanted_type, label %equal, label %no
equal:
  %truth = call i32 @PyObject_RichCompareBool(ptr %key, ptr %wanted, i32 2)
  br eq i32 %truth, 1, label %take, label %no
take:
  %value = load ptr, ptr %value_at
  store ptr %value, ptr %values[ptr %k]
  %following = add i64 %k, 1
  br label %next
end:
  %all = icmp eq i64 %k, %count
  ret i1 %all
no:
  ret i1 false
}}

; the attributes of an object, if they have these names in their order
define i1 @tapegrad_attributes(ptr %object, ptr %type, ptr %names, i64 %count, ptr %values) {{
  %collects = call i32 @PyGC_Disable()  ; a dict that is made here must run no finalizer
  %dict = call ptr @PyObject_GenericGetDict(ptr %object, ptr null)
  br ne i32 %collects, 0, label %enable, label %made
enable:
  call i32 @PyGC_Enable()
  br label %made
made:
  br eq ptr %dict, null, label %no, label %some
some:
  %type_found = load ptr, ptr %dict[i8 {LAYOUT.type}]
  br eq ptr %type_found, %type, label %read, label %other
read:
  %found = call i1 @tapegrad_values(ptr %dict, ptr %names, i64 %count, ptr %values)
  call void @Py_DecRef(ptr %dict)
  ret i1 %found
other:
  call void @Py_DecRef(ptr %dict)
  ret i1 false
no:
  call void @PyErr_Clear()
  ret i1 false
}}

; whether no two of some objects are one
define i1 @tapegrad_distinct(ptr %objects, i64 %count) {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k_next, %inner ]
  br ult i64 %k, %count, label %one, label %yes
one:
  %x = load ptr, ptr %objects[ptr %k]
  %k_next = add i64 %k, 1
  br label %inner
inner:
  %j = phi i64 [ %k_next, %one ], [ %j_next, %other ]
  br ult i64 %j, %count, label %other, label %next
other:
  %y = load ptr, ptr %objects[ptr %j]
  %j_next = add i64 %j, 1
  br eq ptr %x, %y, label %no, label %inner
yes:
  ret i1 true
no:
  ret i1 false
}}

; whether an object is as good as the one recorded
define i1 @tapegrad_stands(ptr %found, ptr %then, ptr %differs) {{
  %both = alloca [2 x ptr]
  br eq ptr %found, %then, label %yes, label %ask
ask:
  store ptr %found, ptr %both
  store ptr %then, ptr %both[ptr 1]
  %answer = call ptr @PyObject_Vectorcall(ptr %differs, ptr %both, i64 2, ptr null)
  br eq ptr %answer, null, label %no, label %told
told:
  %truth = call i32 @PyObject_IsTrue(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  %stands = icmp eq i32 %truth, 0
  ret i1 %stands
yes:
  ret i1 true
no:
  ret i1 false
}}

; a call of a compiled function. What it is made with: the call in Python, the list of native functions of its tapes,
; the list of functions that tell what libraries compute by, two counters, the object that a native function returns
; which left, and None. The tapes are tried one after the other; the one that answers is the first then
define ptr @tapegrad_dispatch(ptr %self, ptr %args, i64 %count, ptr %names) {{
entry:
  %python = load ptr, ptr %self[i8 {LAYOUT.item}]
  %tapes = load ptr, ptr %self[i8 {LAYOUT.item + 8}]
  %around = load ptr, ptr %self[i8 {LAYOUT.item + 16}]
  %counters = load ptr, ptr %self[i8 {LAYOUT.item + 24}]
  %left = load ptr, ptr %self[i8 {LAYOUT.item + 32}]
  %none = load ptr, ptr %self[i8 {LAYOUT.item + 40}]
  br label %outside
outside:
  %i = phi i64 [ 0, %entry ], [ %i_next, %asked ]
  %around_size = load i64, ptr %around[i8 {LAYOUT.size}]
  br ult i64 %i, %around_size, label %ask, label %next
ask:
  %around_items = load ptr, ptr %around[i8 {LAYOUT.items}]
  %state = load ptr, ptr %around_items[ptr %i]
  call void @Py_IncRef(ptr %state)
  %told = call ptr @PyObject_Vectorcall(ptr %state, ptr null, i64 0, ptr null)
  call void @Py_DecRef(ptr %state)
  br eq ptr %told, null, label %raise, label %asked
raise:
  ret ptr null
asked:
  %i_next = add i64 %i, 1
  call void @Py_DecRef(ptr %told)
  br eq ptr %told, %none, label %outside, label %by_python
next:
  %k = phi i64 [ 0, %outside ], [ %following, %again ]
  %size = load i64, ptr %tapes[i8 {LAYOUT.size}]
  br ult i64 %k, %size, label %one, label %by_python
one:
  %items = load ptr, ptr %tapes[i8 {LAYOUT.items}]
  %tape = load ptr, ptr %items[ptr %k]
  call void @Py_IncRef(ptr %tape)
  %answer = call ptr @PyObject_Vectorcall(ptr %tape, ptr %args, i64 %count, ptr %names)
  call void @Py_DecRef(ptr %tape)
  %following = add i64 %k, 1
  br eq ptr %answer, %left, label %again, label %answered
again:
  call void @Py_DecRef(ptr %answer)
  br label %next
answered:
  %hits_address = load ptr, ptr %counters[i8 {LAYOUT.data}]
  %hits = load i64, ptr %hits_address
  %hit = add i64 %hits, 1
  store i64 %hit, ptr %hits_address
  br eq i64 %k, 0, label %done, label %missed
missed:
  %misses_address = getelementptr i64, ptr %hits_address, i64 1
  %misses = load i64, ptr %misses_address
  %all_misses = add i64 %misses, %k
  store i64 %all_misses, ptr %misses_address
  %size_now = load i64, ptr %tapes[i8 {LAYOUT.size}]
  %items_now = load ptr, ptr %tapes[i8 {LAYOUT.items}]
  br ult i64 %k, %size_now, label %still, label %done
still:
  %there = load ptr, ptr %items_now[ptr %k]
  br eq ptr %there, %tape, label %move, label %done
move:
  %j = phi i64 [ %k, %still ], [ %before, %shift ]
  %to = getelementptr ptr, ptr %items_now, i64 %j
  br eq i64 %j, 0, label %put, label %shift
shift:
  %before = sub i64 %j, 1
  %moved = load ptr, ptr %items_now[ptr %before]
  store ptr %moved, ptr %to
  br label %move
put:
  store ptr %tape, ptr %to
  br label %done
done:
  ret ptr %answer
by_python:
  %found = call ptr @PyObject_Vectorcall(ptr %python, ptr %args, i64 %count, ptr %names)
  ret ptr %found
}}
"""
"""The functions of the prelude."""
OWN = """
declare i32 @tapegrad_flags()
declare void @tapegrad_quiet()
declare ptr @tapegrad_invoke(ptr, ptr, i64)
declare ptr @tapegrad_leave(ptr, ptr, i64, ptr, ptr, ptr)
declare i1 @tapegrad_hold(ptr, ptr)
declare ptr @tapegrad_memory(i64)
declare void @tapegrad_put_away(ptr)
declare void @tapegrad_release(ptr, i64)
declare i1 @tapegrad_is_array(ptr, ptr, ptr, i32, ptr)
declare ptr @tapegrad_elements(ptr, ptr)
declare i1 @tapegrad_fresh(ptr, ptr)
declare void @tapegrad_keep(ptr, ptr)
declare i1 @tapegrad_values(ptr, ptr, i64, ptr)
declare i1 @tapegrad_attributes(ptr, ptr, ptr, i64, ptr)
declare i1 @tapegrad_distinct(ptr, i64)
declare i1 @tapegrad_stands(ptr, ptr, ptr)
"""
"""Declarations of the prelude functions that native code calls."""
