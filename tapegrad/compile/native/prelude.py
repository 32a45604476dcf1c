"""prelude: the few functions in LLVM IR by which native code deals with objects of Python's, compiled once.

Objects reach native code by a tuple, which is the PyCFunction's `self`. References that it holds are in slots, which
are released when it leaves.
"""

from __future__ import annotations

from tapegrad.compile.native.layouts import LAYOUT

TROUBLE, UNDERFLOW = 13, 16  # flags of the processor: invalid, division by zero, overflow; and underflow

PYTHON = """
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @PyArray_NewCopy(ptr, i32)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Contains(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PySet_Contains(ptr, ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyBool_FromLong(i64)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
"""What native code calls of CPython, NumPy and LLVM."""
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
  %any = icmp ne i32 %told, 0
  br i1 %any, label %clear, label %done
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
  %any = icmp ne i32 %bad, 0
  br i1 %any, label %no, label %yes
yes:
  %found = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %count, ptr null)
  ret ptr %found
no:
  ret ptr null
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
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %done
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
  %type_at = getelementptr i8, ptr %object, i64 {LAYOUT.type}
  %type_found = load ptr, ptr %type_at
  %fits = icmp eq ptr %type_found, %type
  br i1 %fits, label %array, label %no
array:
  %dtype_at = getelementptr i8, ptr %object, i64 {LAYOUT.dtype}
  %dtype_found = load ptr, ptr %dtype_at
  %dtype_fits = icmp eq ptr %dtype_found, %dtype
  %ndim_at = getelementptr i8, ptr %object, i64 {LAYOUT.ndim}
  %ndim_found = load i32, ptr %ndim_at
  %ndim_fits = icmp eq i32 %ndim_found, %ndim
  %both = and i1 %dtype_fits, %ndim_fits
  br i1 %both, label %axes, label %no
axes:
  %shape_at = getelementptr i8, ptr %object, i64 {LAYOUT.shape}
  %shape_found = load ptr, ptr %shape_at
  br label %next
next:
  %k = phi i32 [ 0, %axes ], [ %following, %one ]
  %more = icmp ult i32 %k, %ndim
  br i1 %more, label %one, label %yes
one:
  %a_at = getelementptr i64, ptr %shape_found, i32 %k
  %b_at = getelementptr i64, ptr %shape, i32 %k
  %a = load i64, ptr %a_at
  %b = load i64, ptr %b_at
  %following = add i32 %k, 1
  %same = icmp eq i64 %a, %b
  br i1 %same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

; the elements of an array, row by row and aligned: its own, or those of a copy in the slot; null where there is none
define ptr @tapegrad_elements(ptr %array, ptr %slot) {{
  %flags_at = getelementptr i8, ptr %array, i64 {LAYOUT.flags}
  %flags = load i32, ptr %flags_at
  %lies = and i32 %flags, 257
  %well = icmp eq i32 %lies, 257
  br i1 %well, label %there, label %copy
there:
  %there_at = getelementptr i8, ptr %array, i64 {LAYOUT.data}
  %there_data = load ptr, ptr %there_at
  ret ptr %there_data
copy:
  %new = call ptr @PyArray_NewCopy(ptr %array, i32 0)
  store ptr %new, ptr %slot
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %no, label %copied
copied:
  %copied_at = getelementptr i8, ptr %new, i64 {LAYOUT.data}
  %copied_data = load ptr, ptr %copied_at
  ret ptr %copied_data
no:
  ret ptr null
}}
"""
"""What it calls of these functions."""
NAMES = ("tapegrad_flags", "tapegrad_quiet", "tapegrad_invoke", "tapegrad_hold", "tapegrad_release",
         "tapegrad_is_array", "tapegrad_elements", "tapegrad_fresh",
         "tapegrad_is_fresh")
OWN = """
declare i32 @tapegrad_flags()
declare void @tapegrad_quiet()
declare ptr @tapegrad_invoke(ptr, ptr, i64)
declare i1 @tapegrad_hold(ptr, ptr)
declare void @tapegrad_release(ptr, i64)
declare i1 @tapegrad_is_array(ptr, ptr, ptr, i32, ptr)
declare ptr @tapegrad_elements(ptr, ptr)
declare i1 @tapegrad_fresh(ptr, ptr)
"""
