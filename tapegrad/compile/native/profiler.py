"""profiler: `sys.setprofile` with a function that is asked about each code object once.

A profiler in Python is called at each start and end of each call, also within tapegrad, which makes a hundred calls for
each operation that it traces. Machine code passes on only what the answers so far have not settled.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType, MethodType
from typing import Any

import numpy as np

from tapegrad.compile.native.layouts import LAYOUT
from tapegrad.compile.native.machine import Code, machine
from tapegrad.compile.native.prelude import PYTHON, spelled_out

SLOTS = 1 << 16  # settled code objects per event, at most; a collision only asks again
HEAD = 2  # words before them: the names of the two events
HEAR = f"""
declare ptr @PyFrame_GetCode(ptr)

; a Py_tracefunc; `hook` is a method bound to a table
define i32 @hear(ptr %hook, ptr %frame, i32 %what, ptr %fn) {{
entry:
  %arguments = alloca [3 x ptr]
  %state = load ptr, ptr %hook[i8 {LAYOUT.bound}]
  %table = load ptr, ptr %state[i8 {LAYOUT.data}]
  switch i32 %what, label %done [
    i32 0, label %look
    i32 4, label %look ]
look:
  %kind = lshr i32 %what, 2
  %event = zext i32 %kind to i64
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  call void @Py_DecRef(ptr %code)  ; the frame holds it
  %address = ptrtoint ptr %code to i64
  %number = lshr i64 %address, 4
  %low = and i64 %number, {SLOTS - 1}
  %first = mul i64 %event, {SLOTS}
  %behind = add i64 %first, {HEAD}
  %place = add i64 %behind, %low
  %slot = getelementptr ptr, ptr %table, i64 %place
  %settled = load ptr, ptr %slot
  br eq ptr %settled, %code, label %done, label %ask
ask:
  %name = load ptr, ptr %table[ptr %event]
  %called = icmp eq i64 %event, 1
  %last = select i1 %called, ptr %fn, ptr %name
  store ptr %frame, ptr %arguments
  store ptr %name, ptr %arguments[i64 1]
  store ptr %last, ptr %arguments[i64 2]
  %answer = call ptr @PyObject_Vectorcall(ptr %hook, ptr %arguments, i64 3, ptr null)
  br eq ptr %answer, null, label %raised, label %answered
answered:
  %truth = call i32 @PyObject_IsTrue(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  br eq i32 %truth, 1, label %settle, label %done
settle:
  store ptr %code, ptr %slot
  br label %done
raised:
  ret i32 -1
done:
  ret i32 0
}}
"""


def set_profile(hear: Callable[[FrameType, str, Any], bool]) -> None:
    """Profile this thread by a function that returns whether it need not be called for this event of a code object
    again; it keeps that code object alive.
    """
    hook = MethodType(lambda _, *event: hear(*event), table := np.zeros(HEAD + 2 * SLOTS, np.uint64))
    table[:HEAD] = [id(name) for name in EVENTS]
    _set(_code().address("hear"), hook)


EVENTS = sys.intern("call"), sys.intern("c_call")


@lru_cache(1)
def _code() -> Code:
    machine().llvm.add_symbol("PyFrame_GetCode", ctypes.cast(ctypes.pythonapi.PyFrame_GetCode, ctypes.c_void_p).value)
    return Code(spelled_out(PYTHON + HEAR))


_set = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.py_object)(("PyEval_SetProfile", ctypes.pythonapi))
