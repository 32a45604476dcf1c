"""observer: observes which code runs and which C functions it calls while a function is traced.

It uses `sys.setprofile` in this thread, or a backend's replacement, and restores an earlier profiler. From Python 3.12
on it uses `sys.monitoring`, whose callbacks can be disabled for each code object.
"""

from __future__ import annotations

import logging
import math
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from inspect import unwrap
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
)
from typing import Any, Protocol

from tapegrad.compile.watch.code_names import LEADING, global_names
from tapegrad.compile.watch.external_state import OWN, QUIET, asked_entry, environment_read, external_function
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.hooks import is_repeatable
from tapegrad.compile.watch.known_calls import is_setting, unknown
from tapegrad.compile.watch.namespaces import OF_ALL, SETTINGS, Entries
from tapegrad.compile.watch.reads import NOBODY, Reads
from tapegrad.compile.watch.unread_attributes import Unread, stored
from tapegrad.errors import INTERNAL, Location, user_frame
from tapegrad.numbers.formatting import brief
from tapegrad.ops import hook, hooked
from tapegrad.rules.op import Op, functions_of
from tapegrad.tape.tape import Tape
from tapegrad.trace.conversions import ORIGINAL, reports_computed_names, to_isinstance
from tapegrad.trace.interposition import original
from tapegrad.trace.numpy_warnings import may_pass_unseen
from tapegrad.trace.replaceable_names import captured_by
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import code_of, running
from tapegrad.tree.installed import library_of
from tapegrad.tree.signature import Signature


class Observer:
    """One observed run: what the code that ran read, and the reason not to compile its tape, if any."""

    def __init__(self, budget: float = math.inf, samples: bool = False) -> None:
        self.reads = Reads(budget, samples)
        self.set_profile: Callable[[Any], Any] = sys.setprofile
        self.ran: set[CodeType] = set()  # code of the program, without libraries
        self.reason = self.cure = ""
        self.where: Location | None = None
        self.known: set[Any] = set()  # keys of C calls already judged
        self.heard: dict[int, CodeType] = {}  # by id: two modules may hold equal code
        self.unread: list[Unread] = []  # attributes that hold external values and must not have been read
        self.computed: set[str] = set()  # computed names of attributes that were looked up
        self.tables: dict[int, Entries] = {}  # tables of weak references, by id
        self.may_warn = False  # NumPy warned, or might have: constants may cause that, which compiled code folds
        self.stop: Callable[[], None] | None = None
        self.depth = 0

    def start(self, structure: Signature) -> None:
        """Begin to observe, in this thread, a function that runs on arguments of this structure."""
        self.reads.reach(structure)
        self.depth, self.may_warn = len(running.tracers), may_pass_unseen()
        running.observers = [*running.observers, self]
        self.stop = _monitor(self) if hasattr(sys, "monitoring") else _profile(self)

    def close(self) -> None:
        """End the observation; further calls do nothing."""
        if self.stop is not None:
            self.stop()
            self.stop = None
            running.observers = [other for other in running.observers if other is not self]

    def warned(self) -> None:
        """Note that NumPy warned."""
        self.may_warn = True

    def is_outside(self) -> bool:
        """Return whether a user's primitive runs: each replay calls it anew, so that its reads need no check."""
        return len(running.tracers) < self.depth

    def entered(self, code: CodeType, frame: FrameType) -> bool:
        """Handle the start of a code object; return whether its later starts may be ignored."""
        if id(code) in self.heard:
            return True
        if self.is_outside():
            return False
        if (variable := environment_read(code, frame)) is not None:
            self.reads.place(*variable)
            return False  # the next call may read another variable
        if code is logging.getLogger.__code__:
            if (name := frame.f_locals["name"]) in logging.root.manager.loggerDict:
                self.reads.place(logging.root.manager.loggerDict, name, f"the logger {name}")
            return False
        module = frame.f_globals.get("__name__", "")
        if module == "logging" and code.co_name in ("isEnabledFor", "makeRecord"):
            self.logged(code.co_name, frame)
            return False  # the next call may concern another logger
        if code.co_filename in INTERNAL:
            self.heard[id(code)] = code
        elif module == "tapegrad.compiled" or is_foreign(module):
            if self.is_internal_call(module, frame.f_back):
                return False  # the program may call it too
            if code is _INSTANCE_CHECK:
                if getattr(cls := frame.f_locals["cls"], "_is_protocol", False):
                    for base in cls.__mro__[:-1]:
                        self.reads.mention([*vars(base), *vars(base).get("__annotations__", ())])
                return False  # the next call may concern another protocol
            if module == "weakref" and (entry := asked_entry(code, frame)) is not None:
                table, key = entry
                entries = self.tables.setdefault(id(table), Entries(table))
                self.reads.place(entries, key, f"a table of weak references, at {key!r},")
                return False  # the next call may read another entry
            if (told := external_function(module, code.co_name)) and self.is_unread(told, code, frame.f_back):
                return False
            self.heard[id(code)] = code
            self.ask(told, frame)
            self.reads.hear(module, code.co_name)
        else:
            self.heard[id(code)] = code
            heard, code = reports_computed_names(code), ORIGINAL.get(code, code)
            self.ran.add(code)
            # a trace may have substituted globals that lead to copies
            self.reads.enter(code, getattr(frame.f_globals, "real", frame.f_globals), heard)
            if (caller := frame.f_back) is not None and is_foreign(caller.f_globals.get("__name__", "")):
                self.reads.mention(caller.f_code.co_names)  # a library found the function by one of these names
            special: Any = sys.modules.get("scipy.special")
            if special is not None and "geterr" in self.reads.names:  # calls of Cython functions are not observed
                self.reads.place(SETTINGS, special.geterr, "scipy.special.geterr()")
        return True

    def is_internal_call(self, module: str, caller: FrameType | None) -> bool:
        """Return whether tapegrad calls code of a library, or the standard library calls it without effect on the
        program's results.
        """
        if caller is None or caller.f_code is to_isinstance.__code__:  # the stand-in for the program's `isinstance`
            return False
        calls = caller.f_globals.get("__name__", "").partition(".")[0]
        return caller.f_code.co_filename in INTERNAL or (module in OWN and calls in sys.stdlib_module_names
                                                         and not calls.startswith("__main__"))

    def called(self, fn: Any, frame: FrameType) -> None:
        """Handle the call of a C function by the program or by Python code of a library."""
        if fn is warnings.warn:  # it may raise, depending on the filters
            self.reads.place(vars(warnings), "filters", "warnings.filters")
        owner, module = getattr(fn, "__self__", None), frame.f_globals.get("__name__", "")
        caller = module.partition(".")[0] if is_foreign(module) else ""
        # one key for a method of all instances; it refers only to objects that stay alive
        key = (fn if owner is None else
               (fn.__name__, owner if isinstance(owner, (ContextVar, ModuleType, type)) else type(owner)), caller)
        if key in self.known or self.is_outside() or caller in QUIET or self.is_of_tapegrad(caller, frame):
            return
        self.known.add(key)
        if type(owner) is ContextVar:
            if not caller or fn.__name__ == "get":
                self.reads.explore(owner, f"context variable {owner.name}")
        elif is_setting(fn) and (not caller or self.is_asked_for(module, frame)):
            self.reads.place(SETTINGS, fn, f"{fn.__module__}.{fn.__name__}()")
        elif fn is threading.get_ident:
            if not caller:
                self.reads.place(SETTINGS, "thread", "the thread that runs it")
        elif fn is print:
            self.refuse("it prints", frame)
        elif fn is globals:
            self.known.discard(key)  # another module may call it
            self.read_whole(getattr(frame.f_globals, "real", frame.f_globals), module)
        elif fn is pickle.dumps:
            self.reads.note_computed_names(library_of(module), False)  # it reads all attributes
        elif not caller or owner is not sys:
            if (told := unknown(fn, caller)) and self.is_unread(told, None, frame):
                self.known.discard(key)  # the result of another call may be read
            else:
                self.ask(told, frame)

    def is_of_tapegrad(self, caller: str, frame: FrameType) -> bool:
        """Return whether tapegrad called this code of the standard library."""
        back = frame.f_back
        return caller in sys.stdlib_module_names and back is not None and back.f_code.co_filename in INTERNAL

    def is_asked_for(self, module: str, frame: FrameType) -> bool:
        """Return whether code of torch reads a setting on the program's behalf, not for internal use."""
        back = frame.f_back
        return module.startswith("torch.backends") or (
            back is not None and back.f_code.co_filename not in INTERNAL
            and not is_foreign(back.f_globals.get("__name__", "")))

    def logged(self, how: str, frame: FrameType) -> None:
        """Handle a log call: refuse a message that is emitted, else note the levels on which the decision depends."""
        logger = frame.f_locals.get("self")
        if how == "makeRecord":
            self.refuse("it logs a message", frame)
            return
        while logger is not None and hasattr(logger, "level"):
            self.reads.place(vars(logger), "level", f"the level of logger {logger.name}")
            self.reads.place(vars(logger.manager), "_disable", "logging.disable")
            logger = logger.parent

    def is_unread(self, what: str, code: CodeType | None, frame: FrameType | None) -> bool:
        """Return whether the result of an external call is only stored in an attribute: `result` finds out whether that
        was read. Calls by the uuid module count too: they are judged as the calls of its functions.
        """
        if (found := stored(what, code, frame)) is not None:
            self.unread.append(found)
        return found is not None or (frame is not None and frame.f_globals.get("__name__") == "uuid")

    def ask(self, what: str, frame: FrameType) -> None:
        """Refuse the call named by `what`, which reads external state; "" is accepted."""
        if what:
            cure = "NumPy's generators, whose draws are recorded: np.random.default_rng(n), np.random.seed(n)"
            self.refuse(f"it calls {what}, which cannot be recorded", frame,
                        cure if what.startswith("random.") else "")

    def named(self, owner: Any, name: Any, frame: FrameType) -> None:
        """Note an attribute that a function looks up by `getattr` or `hasattr`."""
        if isinstance(name, str) and not self.is_outside():
            self.computed.add(name := str.__str__(name))
            self.reads.mention([name])
            if isinstance(owner, ModuleType):
                self.reads.place(vars(module := original(owner)), name, f"{module.__name__}.{name}")
            if name in LEADING:
                self.reads.note_computed_names(library_of(frame.f_globals.get("__name__", "")), False)

    def read_whole(self, scope: dict[str, Any], module: str) -> None:
        """Note all names of a module whose `globals()` code asks for, and that none is added."""
        if id(scope) not in self.reads.sized:
            self.reads.attributes(scope, module, NOBODY, sized=True)
            self.reads.note(scope, scope.keys() - OF_ALL, module)

    def looked_up(self, name: Any, frame: FrameType) -> None:
        """Note a module that a function looks up in `sys.modules`; a `name` that is no string stands for all."""
        if self.is_outside():
            return
        if isinstance(name, str):
            self.reads.place(sys.modules, name := str.__str__(name), f"the module {name}")
        else:
            self.reads.note_computed_names(library_of(frame.f_globals.get("__name__", "")), True)

    def refuse(self, what: str, frame: FrameType | None = None, cure: str = "") -> None:
        """Keep the first reason not to compile, its place in the program, and a suggestion."""
        if not self.reason:
            frame = user_frame(frame or sys._getframe(1))
            self.where = Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            self.reason, self.cure = what, cure

    def asked(self, setting: Callable[[], Any], label: str) -> None:
        """Note a setting on which a library's results depend."""
        self.reads.place(SETTINGS, setting, label)

    def written(self) -> None:
        """Refuse a program that formatted a number: no tape records what it does with the text."""
        self.refuse("it formats a number as text")

    def note_rules(self, tape: Tape) -> None:
        """Note what user-defined rules and hooks read: these values become constants of a compiled tape."""
        for fn in [hooked(op) for op in tape.ops if op.fn is hook]:
            if not is_repeatable(fn):  # recording the sweep calls it again, and compiled code has no side effects
                self.refuse(f"a hook calls {brief(fn)}, which may draw random numbers, print, or store its argument")
            elif isinstance(fn, FunctionType):
                self.reads.note_unobserved(fn)
        ops = {op.fn for op in tape.ops if type(op.fn) is Op and op.fn is not hook}
        rules = [fn for op in ops for fn in map(unwrap, functions_of(op))
                 if type(fn) is FunctionType and not str(fn.__module__).startswith("tapegrad.")]
        for rule in rules:
            self.reads.note_unobserved(rule)
        # rules run outside the trace and see the original of an argument, which is no input to them
        inputs, self.reads.inputs = self.reads.inputs, set()
        for name, x in named_by(rules):
            if id(x) in inputs:
                self.reads.watch(x, f"{name} in a rule")
        self.reads.inputs = inputs

    def result(self) -> tuple[Freshness, str, Location | None]:
        """Return the freshness check, and the reason not to compile the tape ("" if there is none) with its place."""
        self.close()
        self.reads.settle()
        fresh = self.reads.result()
        ran = [code for code in self.heard.values() if code.co_filename not in INTERNAL]
        for part in self.unread:
            if not self.reason and (self.reads.by_name or part.is_read(ran, self.computed)):
                self.reason, self.where = f"it calls {part.asked}, which cannot be recorded", part.where
        if not self.reason and self.reads.refused:
            self.reason = self.reads.refused
        if not self.reason and (changed := fresh.changed()) is not None:
            label, was, now = changed
            self.reason = f"it changes {label}, which it reads" + (f": from {was} to {now}" if was != now else "")
        return fresh, self.reason, self.where


def named_by(functions: list[FunctionType]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of globals and captured variables that functions read, and those that they name in turn."""
    seen = {id(fn) for fn in functions}
    stack = [*functions]
    for fn in stack:
        found = [(name, fn.__globals__.get(name)) for name in global_names(code_of(fn))]
        found += captured_by(fn).items()
        yield from found
        stack += [x for _, x in found if type(x) is FunctionType and not is_foreign(x.__module__) and id(x) not in seen]
        seen.update(id(x) for _, x in found)


def _profile(observer: Observer) -> Callable[[], None]:
    """Observe by `sys.setprofile`, for all active observers; return a function that ends it."""
    hearing = [(each.heard, each.entered, each.called) for each in running.observers if isinstance(each, Observer)]
    inside: dict[int, CodeType] = {}  # code of tapegrad, whose calls of C functions do not matter

    def hear(frame: FrameType, event: str, arg: Any) -> bool:
        """Return whether this event of the same code object may be ignored from now on."""
        code = frame.f_code
        if event == "call":
            known = [id(code) in heard or entered(code, frame) for heard, entered, _ in hearing]
            return all(known)
        if event == "c_call":
            if code.co_filename in INTERNAL:
                inside[id(code)] = code
                return True
            for _, _, called in hearing:
                called(arg, frame)
        return False
    before: Any = sys.getprofile()
    observer.set_profile(hear)
    if before is None or callable(before):
        return lambda: sys.setprofile(before)

    def again() -> None:
        sys.setprofile(None)
        before.enable()  # cProfile's hook, which only its own method can set
    return again


def _monitor(observer: Observer) -> Callable[[], None]:
    """Observe by `sys.monitoring`; return a function that ends it."""
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
        if isinstance(fn, BuiltinFunctionType):  # as with a profiler; a call of a class reports its own code
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


_INSTANCE_CHECK = type(Protocol).__instancecheck__.__code__  # type: ignore[attr-defined]
_lock = threading.Lock()
