"""observer: hears, while a function is traced, which code runs and what is called in C.

`sys.setprofile` tells, in this thread alone; a profiler that was there before comes back. From Python 3.12 on,
`sys.monitoring` does, which asks once for each code object.
"""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from inspect import unwrap
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.hooks import is_repeatable
from tapegrad.compile.watch.namespaces import SETTINGS
from tapegrad.compile.watch.reads import Reads
from tapegrad.compile.watch.world import ALOUD, OWN, QUIET, asked_environment, heard_in_c, heard_in_python
from tapegrad.errors import INTERNAL, Location, user_frame
from tapegrad.numbers.formatting import brief
from tapegrad.ops import hook, hooked
from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call, Tape
from tapegrad.trace.conversions import ORIGINAL
from tapegrad.trace.outside_arrays import WITNESSES
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import running
from tapegrad.tree.signature import Signature


class Observer:
    """One observed run: what the code that ran read, and why its tape must not be compiled, if there is a reason."""

    def __init__(self, budget: float = math.inf, reads: bool = True) -> None:
        self.reads = Reads(budget)
        self.ran: set[CodeType] = set()  # the program's own
        self.notes = reads  # what that code reads, not only that it runs
        self.reason = ""
        self.where: Location | None = None
        self.known: set[Any] = set()
        self.stop: Callable[[], None] | None = None
        self.depth = 0

    def start(self, structure: Signature) -> None:
        """Begin to listen, in this thread, to a function that runs on arguments of this structure."""
        if self.notes:
            self.reads.reach(structure)
        self.depth = len(running.tracers)
        running.observers = [*running.observers, self]
        self.stop = _monitor(self) if hasattr(sys, "monitoring") else _profile(self)

    def close(self) -> None:
        """End listening; once is enough."""
        if self.stop is not None:
            self.stop()
            self.stop = None
            running.observers = [other for other in running.observers if other is not self]

    def is_outside(self) -> bool:
        """Return whether a primitive of the user's runs: each replay calls it, and it reads what it reads."""
        return len(running.tracers) < self.depth

    def entered(self, code: CodeType, frame: FrameType) -> bool:
        """Hear of a code object that begins to run for the first time; return whether it need not be heard of again."""
        if code in self.known:
            return True
        if self.is_outside():
            return False
        if (variable := asked_environment(code, frame)) is not None:
            if self.notes:
                self.reads.place(*variable)
            return False  # another time for another variable
        module = frame.f_globals.get("__name__", "")
        # what the standard library writes for a named tuple reads nothing
        if code.co_filename in INTERNAL or module.startswith("namedtuple_"):
            self.known.add(code)
        elif module == "tapegrad.compiled" or is_foreign(module):
            if self.is_for_its_own_sake(module, frame.f_back):
                return False  # the program may call it too
            self.known.add(code)
            self.ask(heard_in_python(module, code.co_name), frame)
            if self.notes:
                self.reads.hear(module, code.co_name)
        else:
            self.known.add(code)
            code = ORIGINAL.get(code, code)
            self.ran.add(code)
            if self.notes:
                # it may run with globals that lead to copies
                self.reads.enter(code, getattr(frame.f_globals, "real", frame.f_globals))
        return True

    def is_for_its_own_sake(self, module: str, caller: FrameType | None) -> bool:
        """Return whether code of a library is called by tapegrad, or by the standard library for what is no
        concern of the program's.
        """
        if caller is None:
            return False
        calls = caller.f_globals.get("__name__", "").partition(".")[0]
        return caller.f_code.co_filename in INTERNAL or (module in OWN and calls in sys.stdlib_module_names
                                                         and not calls.startswith("__main__"))

    def called(self, fn: Any, frame: FrameType) -> None:
        """Hear of a call in C, by the program itself."""
        if fn is warnings.warn and self.notes:  # it may raise, as its filters say
            self.reads.place(vars(warnings), "filters", "warnings.filters")
        key = id(fn) if getattr(fn, "__self__", None) is None else (fn.__name__, id(fn.__self__))
        if key in self.known or self.is_outside():
            return
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if is_foreign(module) and (getattr(fn, "__module__", "") not in ALOUD or module in QUIET
                                   or module not in sys.stdlib_module_names):
            return
        self.known.add(key)
        if type(owner := getattr(fn, "__self__", None)) is ContextVar:
            self.reads.explore(owner, f"context variable {owner.name}")
        elif fn is threading.get_ident:
            self.reads.place(SETTINGS, "thread", "the thread that runs it")
        else:
            self.ask(heard_in_c(fn), frame)

    def ask(self, what: str, frame: FrameType) -> None:
        """Note a call that reads the world, if this is one."""
        if what:
            self.refuse(f"it asks {what}", frame)

    def refuse(self, what: str, frame: FrameType | None = None) -> None:
        """Note what the program took that is no input, and where; the first time."""
        if not self.reason:
            frame = user_frame(frame or sys._getframe(1))
            self.reason, self.where = what, Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)

    def written(self) -> None:
        """Hear that the program took the text of a number: what it looks up by that is on no tape."""
        self.refuse("it asks the text of a number")

    def note_rules(self, tape: Tape) -> None:
        """Take what the rules of the user's own functions read for read: what they compute by becomes
        constants of a compiled tape.
        """
        calls = [op for op in tape.ops if type(op) is Call and type(op.fn) is Op
                 and op.fn.rr is not None] if self.notes else []
        for fn in [hooked(op) for op in calls if op.fn is hook]:
            if not is_repeatable(fn):  # the sweep is recorded once more, and what is compiled keeps nothing
                self.refuse(f"a hook calls {brief(fn)}, which may draw random numbers, print, or keep what it is given")
            elif isinstance(fn, FunctionType):
                self.reads.run_unheard(fn)
        for rule in {op.fn.rr for op in calls if op.fn is not hook}:
            self.reads.run_unheard(unwrap(rule))

    def result(self) -> tuple[Freshness, str, Location | None]:
        """Return what tells whether what was read is the same, and why that is not enough, if it is not, and where."""
        self.close()
        self.reads.settle()
        fresh = self.reads.result()
        if not self.reason and self.reads.refused:
            self.reason = self.reads.refused
        if not self.reason and (changed := fresh.changed()) is not None:
            label, was, now = changed
            self.reason = f"it changes {label}, which it reads" + (f": from {was} to {now}" if was != now else "")
        return fresh, self.reason, self.where


WITNESSES.append(Observer)


def _profile(observer: Observer) -> Callable[[], None]:
    """Listen by `sys.setprofile`; return how to end."""
    known, entered, called = observer.known, observer.entered, observer.called

    def hear(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            if frame.f_code not in known:
                entered(frame.f_code, frame)
        elif event == "c_call" and frame.f_code.co_filename not in INTERNAL:
            called(arg, frame)
    before: Any = sys.getprofile()
    sys.setprofile(hear)
    if before is None or callable(before):
        return lambda: sys.setprofile(before)

    def again() -> None:
        sys.setprofile(None)
        before.enable()  # cProfile's, which only it can set
    return again


def _monitor(observer: Observer) -> Callable[[], None]:
    """Listen by `sys.monitoring`; return how to end."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    with _lock:
        tool = next((number for number in (3, 4, 0, 1, 2, 5) if monitoring.get_tool(number) is None), None)
        if tool is None:
            return _profile(observer)
        monitoring.use_tool_id(tool, "tapegrad")
    thread, quiet = threading.get_ident(), monitoring.DISABLE

    def entered(code: CodeType, offset: int) -> Any:
        if threading.get_ident() != thread:
            return None
        return quiet if observer.entered(code, sys._getframe(1)) else None

    def called(code: CodeType, offset: int, fn: Any, first: Any) -> Any:
        if threading.get_ident() != thread:
            return None
        if code.co_filename in INTERNAL:
            return quiet
        if type(fn) is MethodDescriptorType and first is not monitoring.MISSING:  # called without being bound first
            fn = fn.__get__(first, type(first))
        if type(fn) in _IN_C:
            observer.called(fn, sys._getframe(1))
        return None
    events = monitoring.events
    monitoring.register_callback(tool, events.PY_START, entered)
    monitoring.register_callback(tool, events.CALL, called)
    monitoring.set_events(tool, events.PY_START | events.CALL)
    monitoring.restart_events()

    def end() -> None:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, events.PY_START, None)
        monitoring.register_callback(tool, events.CALL, None)
        monitoring.free_tool_id(tool)
    return end


_IN_C = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, type)
_lock = threading.Lock()
