"""replacement: what is replaced while any trace runs, and restored when the last that wanted it has ended."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tapegrad.rules.registry import PYTHON
from tapegrad.trace.conversions import Conversion
from tapegrad.trace.holders import NEVER, parts, put, replaced
from tapegrad.trace.interposition import INSTEAD, StandIn, importing, original, stand_in_code, stand_ins
from tapegrad.trace.recorder import LISTENERS
from tapegrad.tree.copies import CODE, Attribute, running

_lock = threading.RLock()


class Interposition:
    """Counts the traces that run, and replaces when the first begins, restores when the last ends.

    Stand-ins pass through what is not traced, so that other threads never notice.
    """

    def __init__(self) -> None:
        self.depth = 0
        # id of a holder: what stood there and does now, how many traces want it
        self.held: dict[int, tuple[dict[Any, tuple[Any, Any]], int]] = {}
        self.swapped: dict[FunctionType, int] = {}  # how many traces want it
        # those with a rule or a meaning, replaced by the first trace for all
        self.known: list[tuple[FunctionType, CodeType, CodeType]] = []
        self.own: dict[FunctionType, CodeType] = {}  # of these
        self.importing: Any = None  # what `import` calls elsewhere

    def enter(self, tracer: Any, holders: Sequence[Any], functions: Sequence[FunctionType]) -> Callable[[], None]:
        """Begin a trace of a function that finds others in these holders, and of these functions as
        primitives; return how to end it.
        """
        with _lock:
            if self.depth == 0:
                for module, _, replacing in stand_ins():
                    module.__class__ = replacing
                if len(self.known) < len(PYTHON):
                    self.known += [(fn, *stand_in_code(fn)) for fn in PYTHON[len(self.known):]]
                    self.own = {fn: own for fn, own, _ in self.known}
                # and there they stay, for no trace changes them: with SciPy and torch they are 170
                CODE.update(self.own)
                for fn, _, code in self.known:
                    fn.__code__ = code
                self.importing = builtins.__import__
                builtins.__import__ = importing(self.importing)  # type: ignore[assignment]
            self.depth += 1
            for holder in holders:
                self.replace_held(holder)
            functions = [fn for fn in functions if fn not in self.own]
            for fn in functions:
                self.swap(fn)
        outer, running.tracers = running.tracers, [*running.tracers, tracer]
        running.open.append(tracer)
        ends = [listen(tracer) for listen in LISTENERS]

        def leave() -> None:
            for end in reversed(ends):
                end()
            running.tracers = outer
            running.open.remove(tracer)
            with _lock:
                for holder in reversed(holders):
                    self.restore_held(holder)
                for fn in functions:
                    self.restore(fn)
                self.depth -= 1
                if self.depth == 0:
                    for module, cls, _ in stand_ins():
                        module.__class__ = cls
                    for fn, own, _ in self.known:
                        fn.__code__ = own
                    builtins.__import__ = self.importing
        return leave

    def replace_held(self, holder: Any) -> None:
        """Replace the functions that a holder keeps, for as many traces as reach it."""
        if type(holder) is Conversion:
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
        """End the replacement that `replace_held` began; what the program has put there meanwhile stays."""
        if type(holder) is Conversion:
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
        else:  # what the program has put there meanwhile may stand in for something too
            for place, there in parts(holder):
                if (type(there) not in NEVER and type(there) is not Attribute
                    and (value := original(there)) is not there):
                    put(holder, place, value)
        for _, there in known.values():  # each made for this holder
            INSTEAD.pop(id(there), None)

    def swap(self, fn: FunctionType) -> None:
        """Replace a Python function's code, which reaches every reference to it, in whatever module."""
        count = self.swapped.get(fn, 0)
        self.swapped[fn] = count + 1
        if not count:
            CODE[fn] = fn.__code__
            fn.__code__ = stand_in_code(fn)[1]

    def restore(self, fn: FunctionType) -> None:
        """End the replacement that `swap` began."""
        self.swapped[fn] -= 1
        if not self.swapped[fn]:
            del self.swapped[fn]
            fn.__code__ = CODE.pop(fn)


interposition = Interposition()
