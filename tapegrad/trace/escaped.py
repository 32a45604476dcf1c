"""escaped: traced values that a program has left where they outlive their trace, in a global, a cache, a default, an
attribute of a class: their plain values stand there from then on.

Whether there are any is told by the number of references to the tracer, which each of its proxies has. Only then the
objects that were made meanwhile are looked through, next what the program reaches by name, last all that Python knows.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from itertools import chain, groupby, islice, starmap
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tapegrad.rules.activity import differentiated, sources
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Input, Operation, Tape
from tapegrad.trace.holding import filled, is_array_of_objects
from tapegrad.trace.plain_values import PlainValues
from tapegrad.trace.write_back import Pending, Place
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import class_of

NEAR = 3000  # things that are looked through of what a program reaches by name
_NODE = "hamt"  # how the names of types begin of which Python builds contexts
_lock = threading.RLock()  # a search would find the lists of another
_PASSED = (FrameType, CodeType, ModuleType, Traced, Operation)  # whose parts are their own, or nobody's


def _references(things: dict[int, Any]) -> list[tuple[int, int]]:
    return [(key, sys.getrefcount(x)) for key, x in things.items()]


_ALONE = _references({0: object()})[0][1]  # references to a thing that only the search has
_LISTED = next(sys.getrefcount(things[0]) for things in [[object()]])  # to one that is in a list alone


def _young() -> list[Any]:
    """Return the young objects but tuples, by age. Another thread may be making a tuple of an iterator: Python makes it
    larger step by step, and cannot while anybody else refers to it. So they are left out in the call in C that lists
    them, within which no other thread runs.
    """
    runs = groupby(chain.from_iterable(map(gc.get_objects, (0,))), type)
    but_tuples: Any = {tuple: ()}.get
    try:
        found = list[Any](chain.from_iterable(starmap(but_tuples, runs)))
    except Exception:  # of a metaclass that compares in Python, and not for this
        return [x for x in gc.get_objects(0) if type(x) is not tuple]
    young = found.copy()
    found.clear()  # it holds itself, and the iterator above its last object
    return young


class Made:
    """What one trace was made of, told once its run has ended: its tracer, its tape, the inputs as they were given, the
    copies and what each was made of.
    """

    __slots__ = ("copies", "given", "originals", "tape", "tracer")

    def __init__(self) -> None:
        self.tracer: Any = None
        self.tape: Tape | None = None
        self.given: list[Any] = []
        self.copies: list[Any] = []  # they are kept: their ids stay their own, whatever other threads make
        self.originals: list[Any] = []

    def count(self) -> int:
        """Return how many operations there are so far."""
        return 0 if self.tape is None else len(self.tape)

    def take(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Take the copies of a trace, with what they were made of."""
        for new, x in pairs:
            if not issubclass(type(new), Traced):
                self.copies.append(new)
                self.originals.append(x)

    def is_alone(self) -> bool:
        """Return whether nobody holds a traced value. The copies that nobody holds are let go."""
        copies, some = self.copies, True
        while some:
            some = False
            for k in range(len(copies)):
                if copies[k] is not None and sys.getrefcount(copies[k]) == _LISTED:
                    copies[k], some = None, True
        return sys.getrefcount(self.tracer) == 2  # this object's, and that of the call

    def since(self) -> list[Any] | None:
        """Return the objects but tuples that were made after this one. None if the program has collected garbage
        meanwhile.
        """
        young = _young()
        for i in range(len(young) - 1, -1, -1):
            if young[i] is self:
                return young[i + 1:]
        return None

    def release(self, program: Any) -> None:
        """Put plain values in place of all traced ones that have outlived the trace."""
        with _lock:
            self._search(program)

    def _search(self, program: Any) -> None:
        search = _Search(self)
        young = self.since()
        if young is None:
            young = _young()
            search.meet(gc.get_referrers(self.tracer))
        search.meet(young)
        # what refers to the values is kept until their references have been counted
        others = [x for x in young if id(x) not in search.targets]
        del young
        search.look(others, old=False)
        search.reset_variables()
        search.look(search.targets.values())  # copies of a recursive function hold each other, and nobody holds them
        near, some = _near(program), list[Any]()
        while search.missing() and (some := [*islice(near, 50)]):
            search.look(some)
        some.clear()
        known = 0
        while len(search.targets) > known and search.missing():  # a tuple among what refers to some is missing in turn
            known = len(search.targets)
            search.look(search.referrers())
        for context in _contexts_of(search.nodes):
            with suppress(RuntimeError):  # it is that of a call which has not ended
                context.run(search.reset_variables)
        search.tell()


class _Search:
    """Replaces some things wherever they are held."""

    def __init__(self, made: Made) -> None:
        tape: Any = made.tape
        self.made, self.plain = made, PlainValues(made.tracer, tape, made.given, {})
        if tape.structure is not None and tape.structure.effects is not None:
            self.plain.memory.update(tape.structure.effects.memory)
        self.wrt = differentiated(tape)
        self.targets: dict[int, Any] = {}
        self.values: dict[int, Any] = {}
        self.found: dict[int, int] = {}  # how many references to each have been met
        self.looked: set[int] = set()  # what goes on referring to some
        self.holders: dict[int, Any] = {}  # what has been written to
        self.lost: list[Place] = []
        self.nodes: list[Any] = []  # parts of contexts that hold some
        for k, original in enumerate(made.originals):
            if type(made.copies[k]) is class_of(original) and made.copies[k] is not original:
                self.add(made.copies[k], original)
                self.found[id(made.copies[k])] = 1  # the trace's own list

    def meet(self, things: Iterable[Any]) -> None:
        """Take the traced values among some things."""
        for x in things:
            if issubclass(type(x), Traced) and getattr(x, "_tracer", None) is self.made.tracer:
                self.add(x, self.plain(x))

    def add(self, x: Any, value: Any) -> None:
        """Take a thing, and what it is replaced by."""
        self.targets[id(x)], self.values[id(x)] = x, value

    def missing(self) -> list[Any]:
        """Return the things to which there are references that have not been met."""
        found = self.found
        return [self.targets[key] for key, count in _references(self.targets) if count > _ALONE + found.get(key, 0)]

    def referrers(self) -> list[Any]:
        """Return all that refers to those things."""
        missing = (*self.missing(),)
        return [x for x in gc.get_referrers(*missing) if x is not missing]

    def look(self, things: Iterable[Any], old: bool = True) -> None:
        """Replace what some things, and tuples and arrays of objects in them, hold. A tuple or slice cannot be written
        to: it becomes one that is replaced.
        """
        own = self.targets, self.values, self.made.copies
        todo = [*self.holders.values(), *(x for x in things if not any(x is part for part in own))]
        met, inner = {id(x) for x in todo}, list[Any]()
        for x in chain(todo, inner):
            for part in () if issubclass(type(x), _PASSED) and type(x) is not FrameType else _parts_of(x):
                if (type(part) is tuple or is_array_of_objects(part)) and id(part) not in met:
                    met.add(id(part))
                    inner.append(part)
        todo = [*reversed(inner), *todo]  # what holds such a tuple, as a frame does, is looked at once it is known
        inner.clear()
        again = True
        while again:
            again = False
            for x in todo:
                if id(x) in self.looked or x is todo:
                    continue
                hits = self.hits(x)
                if not hits:
                    continue
                if id(x) not in self.targets and not isinstance(x, _PASSED) and not _is_ours(x):
                    if (other := filled(x, self.instead)) is x:
                        if old and id(x) not in self.holders:
                            self.note(x, hits)
                        if not (hits := self.hits(x)):
                            self.holders[id(x)] = x
                            continue
                    else:
                        self.add(x, other)
                        again = True
                        if not old and type(x) is not tuple:  # the list of young things holds it too
                            self.found[id(x)] = self.found.get(id(x), 0) + 1
                self.looked.add(id(x))
                if type(x).__name__.startswith(_NODE):
                    self.nodes.append(x)
                for part in hits:  # it still refers to them: a generator does, which waits
                    self.found[id(part)] = self.found.get(id(part), 0) + 1

    def reset_variables(self) -> None:
        """Replace what context variables hold."""
        for variable, held in [*copy_context().items()]:
            if id(held) in self.targets:
                self.note(variable, [held])
                variable.set(self.values[id(held)])

    def hits(self, x: Any) -> list[Any]:
        """Return what a thing refers to of what is replaced."""
        return [part for part in _parts_of(x) if id(part) in self.targets]

    def instead(self, x: Any) -> Any:
        """Return what a thing is replaced by, itself where it is not."""
        return self.values.get(id(x), x) if id(x) in self.targets else x

    def note(self, x: Any, hits: list[Any]) -> None:
        """Note that a number by which the call is differentiated was stored; its value is."""
        for part in hits if not isinstance(x, (list, set, deque)) and id(x) not in self.plain.tables else ():
            if isinstance(part, Traced):
                op = part._view.storage.op if part._view is not None else part._op
                if any(isinstance(source, Input) and source.id - 1 in self.wrt for source in sources(op)):
                    holder = f"the class {x.__name__}" if isinstance(x, type) else f"a {type(x).__name__}"
                    what = f"what is stored in {holder}, which outlives the call, is a plain number there from now on"
                    self.lost.append(Place(what, ops=[op]))

    def tell(self) -> None:
        """Warn of what was stored: of the first value, in the order in which the program computed them."""
        if self.lost:
            first = min(self.lost, key=lambda place: place.ops[0].id)
            Pending([], [first], self.made.tape).settle()  # type: ignore[arg-type]


def _contexts_of(nodes: list[Any]) -> list[Context]:
    """Return the contexts of which some things are parts: their variables stand in trees of nodes."""
    found: dict[int, Context] = {}
    while nodes:
        above = gc.get_referrers(*nodes)
        found.update((id(x), x) for x in above if isinstance(x, Context))
        nodes = [x for x in above if type(x).__name__.startswith(_NODE)]
    return [*found.values()]


def _parts_of(x: Any) -> list[Any]:
    if issubclass(type(x), type):
        return [*vars(x).values()]
    return list(x.flat) if is_array_of_objects(x) else gc.get_referents(x)


def _is_library(space: dict[str, Any]) -> bool:
    package = str(space.get("__name__")).partition(".")[0]
    return package == "tapegrad" or is_foreign(package)


def _is_ours(x: Any) -> bool:
    return str(type(x).__module__).startswith("tapegrad.")


def _near(program: Any) -> Iterator[Any]:
    """Yield what a program reaches by name, nearest first."""
    while isinstance(program, functools.partial):
        program = program.func
    fn = getattr(program, "__func__", program)
    if not isinstance(fn, FunctionType):
        fn = vars(type(fn)).get("__call__")
    space = getattr(fn, "__globals__", None)
    todo: list[Any] = [x for x in (program, fn, space) if x is not None]
    seen = set(map(id, todo))
    for x in todo:
        yield x
        for part in _parts_of(x):
            if id(part) in seen or isinstance(part, (ModuleType, CodeType, FrameType)) or not (
                    gc.is_tracked(part) or is_array_of_objects(part)):
                continue
            if type(part) is dict and "__builtins__" in part and _is_library(part):
                continue
            seen.add(id(part))
            if len(seen) > NEAR:
                return
            todo.append(part)

