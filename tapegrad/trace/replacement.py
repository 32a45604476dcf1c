"""replacement: replaces functions while any trace runs, and restores them when the last trace that needs it ends."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tapegrad.interrupts import whole
from tapegrad.rules.registry import PYTHON, StandIn
from tapegrad.trace.conversions import Conversions
from tapegrad.trace.holders import NEVER, parts, put, replaced
from tapegrad.trace.import_statements import is_loaded, keeps
from tapegrad.trace.interposition import (
    INSTEAD,
    numpy_module,
    original,
    stand_in_code,
    stand_ins,
    standing_for,
    trampoline,
)
from tapegrad.trace.lazy_frontends import register_imported
from tapegrad.trace.observers import HANDED
from tapegrad.trace.recorder import TRACE_HOOKS
from tapegrad.trace.replaceable_names import holders, loaded
from tapegrad.tree.copies import CODE, Attribute, another, apart, running

_lock = threading.RLock()


class Interposition:
    """Counts the running traces: replaces at the start of the first, restores at the end of the last.

    Stand-ins pass untraced calls through, so other threads do not notice.
    """

    def __init__(self) -> None:
        self.depth = 0
        # by id of a holder: place -> (original, stand-in), and how many traces use it
        self.held: dict[int, tuple[dict[Any, tuple[Any, Any]], int]] = {}
        self.swapped: dict[FunctionType, int] = {}  # how many traces use each
        # functions with a rule or an implementation, replaced by the first trace for all traces
        self.known: list[tuple[FunctionType, CodeType, CodeType]] = []
        self.own: dict[FunctionType, CodeType] = {}  # the own code of these
        self.swaps: tuple[Sequence[Any], ...] = ((), (), (), ())  # the same as columns, with the attribute's name
        # by a tracer's level: a function that finds the holders of its program, the holders in use, and the objects
        # that the program reached by computed names
        self.holding: dict[int, tuple[Callable[[], Iterable[Any]], list[Any], dict[int, Any]]] = {}
        self.importing: Any = None  # the original `__import__`
        self.aside = False  # replacements are suspended while a module is imported

    @whole
    def enter(self, tracer: Any, find: Callable[[], Iterable[Any]],
              functions: Sequence[FunctionType]) -> Callable[[], None]:
        """Begin a trace. `find` returns the holders of functions that the program reaches, and is called again after
        imports; `functions` are primitives. Return a function that ends the trace.
        """
        with _lock:
            if self.depth == 0 or self.aside:  # suspended perhaps by another thread
                self.replace_all()
                self.aside = False
            if self.depth == 0:
                self.importing = builtins.__import__
                builtins.__import__ = importing(self.importing)
            self.depth += 1
            held: list[Any] = []
            functions = [fn for fn in functions if fn not in self.own]
            try:
                for holder in list(find()):
                    self.replace_held(holder)
                    held.append(holder)
            except BaseException:  # raised by an object of the program: nothing stays replaced
                self.end(held, ())
                raise
            for fn in functions:
                self.swap(fn)
        outer, running.tracers = running.tracers, [*running.tracers, tracer]
        running.open.append(tracer)
        self.holding[tracer.level] = find, held, {}
        ends = [listen(tracer) for listen in TRACE_HOOKS]
        return partial(self.leave, tracer, outer, ends, held, functions)

    @whole
    def leave(self, tracer: Any, outer: list[Any], ends: Sequence[Callable[[], None]], held: Sequence[Any],
              functions: Sequence[FunctionType]) -> None:
        """End a trace."""
        for end in reversed(ends):
            end()
        running.tracers = outer
        running.open.remove(tracer)
        del self.holding[tracer.level]
        with _lock:
            self.end(held, functions)

    @whole
    def end(self, held: Sequence[Any], functions: Sequence[FunctionType]) -> None:
        """Undo the replacements of a trace."""
        for holder in reversed(held):
            self.restore_held(holder)
        for fn in functions:
            self.restore(fn)
        self.depth -= 1
        if self.depth == 0:
            self.restore_all()
            builtins.__import__ = self.importing

    def replace_all(self) -> None:
        """Make the replacements that are common to all traces."""
        for module, _, replacing in stand_ins():
            module.__class__ = replacing
        if not self.known:
            fn: Any = importlib.import_module
            self.known.append((fn, fn.__code__, trampoline(fn.__code__, partial(self.imported, another(fn)))))
        if len(self.known) <= len(PYTHON):
            self.known += [(fn, *stand_in_code(fn)) for fn in PYTHON[len(self.known) - 1:]]
            self.own = {fn: own for fn, own, _ in self.known}
            # kept in CODE permanently, since traces do not change it: 170 functions with SciPy and torch
            CODE.update(self.own)
            columns = list(zip(*self.known))
            self.swaps = columns[0], ("__code__",) * len(self.known), *columns[1:]
        functions, name, _, codes = self.swaps
        any(map(setattr, functions, name, codes))  # one loop in C, since every trace does it

    def restore_all(self) -> None:
        """Undo `replace_all`."""
        for module, cls, _ in stand_ins():
            module.__class__ = cls
        functions, name, own, _ = self.swaps
        any(map(setattr, functions, name, own))

    def imported(self, real: Callable[..., Any], /, name: str, *args: Any, **kwargs: Any) -> Any:
        """Import a module; if a trace runs, replace the functions that the import makes reachable."""
        if self.aside or not running.open:
            return real(name, *args, **kwargs)
        if is_loaded(name, *args, **kwargs) if real is self.importing else is_loaded(name):
            found = real(name, *args, **kwargs)
            if found is np and running.tracers and keeps(sys._getframe(1)):
                return numpy_module()
        else:
            with self.set_aside(f"a module that is imported, {name},"):
                found = real(name, *args, **kwargs)
                register_imported()
        if real is not self.importing:
            self.reach(found)
        return found

    def reach(self, x: Any) -> None:
        """Replace the functions of an object that traced code reached by a computed name."""
        for tracer in running.tracers:
            _, held, known = self.holding[tracer.level]
            if id(x) not in known:
                known[id(x)] = x
                with _lock:
                    self.hold(held, holders(None, [x]))

    def hold(self, held: list[Any], found: Iterable[Any]) -> None:
        """Replace the functions in more holders for a trace."""
        known = {*map(id, held)}
        for holder in found:
            if id(holder) not in known:
                held.append(holder)
                self.replace_held(holder)

    @contextlib.contextmanager
    def set_aside(self, whose: str) -> Iterator[None]:
        """Suspend tracing while a module's body runs: it is no part of the program and stores nothing of the trace.
        Functions it defines are then replaced like those of other modules.
        """
        modules = loaded()
        with _lock:
            alone = self.depth == len(running.open)
            if alone:  # otherwise another thread's trace needs the replacements
                self.restore_all()
                self.aside = True
        try:
            with apart(whose):
                yield
        finally:
            with _lock:
                if alone:
                    self.aside = False
                    self.replace_all()
                for tracer in running.tracers if loaded() > modules else ():
                    find, held, _ = self.holding[tracer.level]
                    self.hold(held, [*find()])

    def replace_held(self, holder: Any) -> None:
        """Replace the functions in a holder, counting the traces that use it."""
        if type(holder) is Conversions:
            holder.begin()
            return
        known, count = self.held.get(id(holder), (None, 0))
        if known is None:
            known = replaced(holder)
            for place, (value, there) in known.items():
                if type(holder) is dict:
                    holder[place] = there
                else:
                    put(holder, place, there)
                if type(there) is not ModuleType and not issubclass(type(there), StandIn):
                    INSTEAD[id(there)] = there, value
        self.held[id(holder)] = known, count + 1

    def restore_held(self, holder: Any) -> None:
        """Undo `replace_held`; values that the program stored meanwhile stay."""
        if type(holder) is Conversions:
            holder.end()
            return
        known, count = self.held.pop(id(holder))
        if count > 1:
            self.held[id(holder)] = known, count - 1
            return
        if not known:
            return
        if type(holder) is dict and "__builtins__" in holder:
            for place, (value, there) in known.items():
                if holder.get(place) is there:
                    holder[place] = value
        else:  # values that the program stored meanwhile may be stand-ins too
            for place, there in parts(holder):
                if (type(there) not in NEVER and type(there) is not Attribute
                    and (value := original(there)) is not there):
                    put(holder, place, value)
        for _, there in known.values():  # each belongs to this holder
            INSTEAD.pop(id(there), None)

    def swap(self, fn: FunctionType) -> None:
        """Replace a Python function's code, which affects every reference to it, in whatever module."""
        count = self.swapped.get(fn, 0)
        self.swapped[fn] = count + 1
        if not count:
            CODE[fn] = fn.__code__
            fn.__code__ = stand_in_code(fn)[1]

    def restore(self, fn: FunctionType) -> None:
        """Undo `swap`."""
        self.swapped[fn] -= 1
        if not self.swapped[fn]:
            del self.swapped[fn]
            fn.__code__ = CODE.pop(fn)


@cache
def importing(real: Callable[..., Any]) -> Any:
    """Return the replacement of `__import__` while a trace runs."""
    return standing_for(real, partial(interposition.imported, real))


interposition = Interposition()
HANDED.append(interposition.reach)
