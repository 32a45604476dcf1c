"""arena: LLVM functions for the memory of a call, which the next call uses again."""

from __future__ import annotations

from tapegrad.compile.native.plan import ALIGN

KEPT = 1 << 26  # bytes kept from one call to the next, at most
ARENA = f"""
; memory for a call, its size in the first word: the memory that the last call put away, if it is large enough.
; Memory that is given back to the system has to be filled with zeros by it, which takes longer than most calls
@tapegrad_kept = internal global ptr null

define ptr @tapegrad_memory(i64 %size) {{
  %kept = load ptr, ptr @tapegrad_kept
  br eq ptr %kept, null, label %new, label %look
look:
  %room = load i64, ptr %kept
  br uge i64 %room, %size, label %take, label %new
take:
  store ptr null, ptr @tapegrad_kept
  ret ptr %kept
new:
  %made = call ptr @aligned_alloc(i64 {ALIGN}, i64 %size)
  br eq ptr %made, null, label %none, label %write
write:
  store i64 %size, ptr %made
  ret ptr %made
none:
  ret ptr null
}}

define void @tapegrad_put_away(ptr %memory) {{
  br eq ptr %memory, null, label %done, label %look
look:
  %size = load i64, ptr %memory
  br ugt i64 %size, {KEPT}, label %free, label %keep
keep:
  %before = load ptr, ptr @tapegrad_kept
  store ptr %memory, ptr @tapegrad_kept
  call void @free(ptr %before)
  ret void
free:
  call void @free(ptr %memory)
  ret void
done:
  ret void
}}
"""
