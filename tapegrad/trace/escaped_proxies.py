"""escaped_proxies: replaces proxies that the program stored in places that outlive the trace (globals, caches,
defaults, class attributes) by their plain values.

Every proxy holds a reference to its tracer, so the tracer's reference count shows whether any proxy survived. Only then
the search runs: first over objects made since the trace began, next over those the program reaches by name, last over
all that the garbage collector knows.
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
from tapegrad.trace.plain_values import PlainValues
from tapegrad.trace.substitution import filled, is_array_of_objects
from tapegrad.trace.write_back import Pending, Place
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import class_of

NEAR = 3000  # objects searched among those that the program reaches by name
_NODE = "hamt"  # prefix of the type names of the nodes that implement contexts
_lock = threading.RLock()  # two searches at once would find each other's lists
_PASSED = (FrameType, CodeType, ModuleType, Traced, Operation)  # their contents are not searched or not replaced


def _references(things: dict[int, Any]) -> list[tuple[int, int]]:
    return [(key, sys.getrefcount(x)) for key, x in things.items()]


_ALONE = _references({0: object()})[0][1]  # reference count of an object that only the search holds
_LISTED = next(sys.getrefcount(things[0]) for things in [[object()]])  # of an object that only a list holds


def _young() -> list[Any]:
    """Return the youngest generation of objects without tuples, by age. CPython resizes a tuple while it is built from
    an iterator, which fails if another thread holds a reference; tuples are therefore dropped within the C call that
    lists the objects, during which no other thread runs.
    """
    runs = groupby(chain.from_iterable(map(gc.get_objects, (0,))), type)
    but_tuples: Any = {tuple: ()}.get
    try:
        found = list[Any](chain.from_iterable(starmap(but_tuples, runs)))
    except Exception:  # raised by the comparison of a metaclass written in Python
        return [x for x in gc.get_objects(0) if type(x) is not tuple]
    young = found.copy()
    found.clear()  # breaks the cycle with the iterator
    return young


class Made:
    """One trace's tracer, tape, inputs as given, and copies with their originals, for the search after its run."""

    __slots__ = ("copies", "given", "originals", "tape", "tracer")

    def __init__(self) -> None:
        self.tracer: Any = None
        self.tape: Tape | None = None
        self.given: list[Any] = []
        self.copies: list[Any] = []  # kept alive, so that their ids are not reused
        self.originals: list[Any] = []

    def count(self) -> int:
        """Return the number of operations so far."""
        return 0 if self.tape is None else len(self.tape)

    def take(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Add copies and their originals."""
        for new, x in pairs:
            if not issubclass(type(new), Traced):
                self.copies.append(new)
                self.originals.append(x)

    def has_no_survivors(self) -> bool:
        """Return whether no proxy survived; drops the copies that nobody else holds."""
        copies, some = self.copies, True
        while some:
            some = False
            for k in range(len(copies)):
                if copies[k] is not None and sys.getrefcount(copies[k]) == _LISTED:
                    copies[k], some = None, True
        return sys.getrefcount(self.tracer) == 2  # this object and the call

    def since(self) -> list[Any] | None:
        """Return the objects other than tuples made after this one, None if a garbage collection intervened."""
        young = _young()
        for i in range(len(young) - 1, -1, -1):
            if young[i] is self:
                return young[i + 1:]
        return None

    def release(self, program: Any) -> None:
        """Replace every proxy that outlived the trace by its plain value."""
        with _lock:
            self._search(program)

    def _search(self, program: Any) -> None:
        search = _Search(self)
        young = self.since()
        if young is None:
            young = _young()
            search.meet(gc.get_referrers(self.tracer))
        search.meet(young)
        # keep the referrers alive until their references have been counted
        others = [x for x in young if id(x) not in search.targets]
        del young
        search.look(others, old=False)
        search.reset_variables()
        search.look(search.targets.values())  # copies of a recursive function may hold only each other
        near, some = _near(program), list[Any]()
        while search.missing() and (some := [*islice(near, 50)]):
            search.look(some)
        some.clear()
        known = 0
        while len(search.targets) > known and search.missing():  # a tuple that holds a target becomes a target itself
            known = len(search.targets)
            search.look(search.referrers())
        for context in _contexts_of(search.nodes):
            with suppress(RuntimeError):  # the context of a call in progress
                context.run(search.reset_variables)
        search.tell()


class _Search:
    """Replaces the targets wherever they are held."""

    def __init__(self, made: Made) -> None:
        tape: Any = made.tape
        self.made, self.plain = made, PlainValues(made.tracer, tape, made.given, {})
        if tape.structure is not None and tape.structure.effects is not None:
            self.plain.memory.update(tape.structure.effects.memory)
        self.wrt = differentiated(tape)
        self.targets: dict[int, Any] = {}
        self.values: dict[int, Any] = {}
        self.found: dict[int, int] = {}  # by id: how many references to a target have been found
        self.looked: set[int] = set()  # objects that keep referring to targets
        self.holders: dict[int, Any] = {}  # objects that were written to
        self.lost: list[Place] = []
        self.nodes: list[Any] = []  # nodes of contexts that hold targets
        for k, original in enumerate(made.originals):
            if type(made.copies[k]) is class_of(original) and made.copies[k] is not original:
                self.add(made.copies[k], original)
                self.found[id(made.copies[k])] = 1  # the trace's own list

    def meet(self, things: Iterable[Any]) -> None:
        """Add the trace's proxies among some objects as targets."""
        for x in things:
            if issubclass(type(x), Traced) and getattr(x, "_tracer", None) is self.made.tracer:
                self.add(x, self.plain(x))

    def add(self, x: Any, value: Any) -> None:
        """Add a target and its replacement."""
        self.targets[id(x)], self.values[id(x)] = x, value

    def missing(self) -> list[Any]:
        """Return the targets with references that have not been found."""
        found = self.found
        return [self.targets[key] for key, count in _references(self.targets) if count > _ALONE + found.get(key, 0)]

    def referrers(self) -> list[Any]:
        """Return all objects that refer to those targets."""
        missing = (*self.missing(),)
        return [x for x in gc.get_referrers(*missing) if x is not missing]

    def look(self, things: Iterable[Any], old: bool = True) -> None:
        """Replace targets held by some objects, and by tuples and object arrays inside them. An immutable holder
        (tuple, slice) becomes a target itself.
        """
        own = self.targets, self.values, self.made.copies
        todo = [*self.holders.values(), *(x for x in things if not any(x is part for part in own))]
        met, inner = {id(x) for x in todo}, list[Any]()
        for x in chain(todo, inner):
            for part in () if issubclass(type(x), _PASSED) and type(x) is not FrameType else _parts_of(x):
                if (type(part) is tuple or is_array_of_objects(part)) and id(part) not in met:
                    met.add(id(part))
                    inner.append(part)
        todo = [*reversed(inner), *todo]  # innermost first: a holder of such a tuple, as a frame, comes after it
        inner.clear()
        kept, again = list[Any](), True
        while again:
            again = False
            for x in todo:
                if id(x) in self.looked or x is todo or x is kept:
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
                        if not old and type(x) is not tuple:  # the list of young objects holds it too
                            self.found[id(x)] = self.found.get(id(x), 0) + 1
                self.looked.add(id(x))
                if type(x).__name__.startswith(_NODE):
                    self.nodes.append(x)
                kept.append(x)
        for x in kept:  # their references remain: in a suspended generator, for example
            for part in self.hits(x):  # those to tuples as well that became targets after a pass had come to x
                self.found[id(part)] = self.found.get(id(part), 0) + 1

    def reset_variables(self) -> None:
        """Replace targets held by context variables."""
        for variable, held in [*copy_context().items()]:
            if id(held) in self.targets:
                self.note(variable, [held])
                variable.set(self.values[id(held)])

    def hits(self, x: Any) -> list[Any]:
        """Return the targets that an object refers to."""
        return [part for part in _parts_of(x) if id(part) in self.targets]

    def instead(self, x: Any) -> Any:
        """Return the replacement of a target, other objects unchanged."""
        return self.values.get(id(x), x) if id(x) in self.targets else x

    def note(self, x: Any, hits: list[Any]) -> None:
        """Note that a number by which the call is differentiated was stored and becomes plain."""
        for part in hits if not isinstance(x, (list, set, deque)) and id(x) not in self.plain.tables else ():
            if isinstance(part, Traced):
                op = part._view.storage.op if part._view is not None else part._op
                if any(isinstance(source, Input) and source.id - 1 in self.wrt for source in sources(op)):
                    holder = f"the class {x.__name__}" if isinstance(x, type) else f"a {type(x).__name__}"
                    what = (f"a traced value was stored in {holder}, which outlives the call: it is a plain number "
                            "there now, without its gradient")
                    self.lost.append(Place(what, ops=[op]))

    def tell(self) -> None:
        """Warn of the first stored value in the order of computation."""
        if self.lost:
            first = min(self.lost, key=lambda place: place.ops[0].id)
            Pending([], [first], self.made.tape).settle()  # type: ignore[arg-type]


def _contexts_of(nodes: list[Any]) -> list[Context]:
    """Return the contexts that contain some nodes of their variable trees."""
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
    """Yield the objects that a program reaches by name, nearest first."""
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

