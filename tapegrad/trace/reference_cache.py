"""reference_cache: the objects reachable from the code of installed packages, cached between searches for originals.

A model of a public library reaches thousands of functions, classes and tables of its package, the same in each trace.
The cache keeps each object's references; comparing them takes a fraction of the time of following them again. Objects
whose references changed are followed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from gc import get_referents
from operator import attrgetter, is_
from types import FunctionType
from typing import Any

from tapegrad.numbers.object_state import attributes

KEPT = 16  # closed worlds that are cached
TOGETHER = 32  # namespaces, objects and cells compared in one call
_PARTS = tuple(map(attrgetter, ("__code__", "__defaults__", "__kwdefaults__")))
_ORDER = attrgetter("__mro__")


class ReferenceCache:
    """The objects reachable from some roots.

    `met`: by id; `parents`: what refers to each; `seen`: ids of everything on the way. `given`: those that a trace
    copies. `open`: those that each search follows. `spaces`: namespaces read besides the functions' globals. `readers`:
    functions that identify objects by `id` or search for them.
    """

    def __init__(self, met: dict[int, Any], parents: dict[int, list[tuple[Any, str]]],
                 spaces: dict[int, tuple[Any, list[Any]]], readers: dict[int, FunctionType],
                 given: Callable[[Any], bool], is_open: Callable[[Any], bool]) -> None:
        self.met, self.parents, self.readers, self.seen = met, parents, readers, {*parents, *met}
        self.followed = 0  # how many things were followed again since
        self.given = {key: x for key, x in met.items() if given(x)}
        self.open = [x for x in met.values() if is_open(x)]
        closed = [x for x in met.values() if not is_open(x)]
        self.functions = [x for x in closed if type(x) is FunctionType]
        self.parts = [list(map(part, self.functions)) for part in _PARTS]
        self.bare = [fn for fn in self.functions if not fn.__dict__]
        self.dicts = [fn.__dict__ for fn in self.bare]
        self.classes = [x for x in closed if issubclass(type(x), type)]
        self.orders = [x.__mro__ for x in self.classes]
        for fn in self.functions:
            spaces.setdefault(id(fn.__globals__), (fn.__globals__, []))[1].append(fn)
        # containers, their contents, and the objects to follow again if these changed
        held = [(space, get_referents(space), fns) for space, fns in spaces.values()]
        for x in closed:
            held += [(part, get_referents(part), [x]) for part in _holders(x)]
        self.seen.update(map(id, self.orders), *(map(id, then) for _, then, _ in held))
        # several at once, separated by marks: one call shows whether any of them changed
        self.held = [([part for holder, _, _ in some for part in (holder, _END)],
                      [part for _, then, _ in some for part in (*then, *_END)], some)
                     for some in (held[at:at + TOGETHER] for at in range(0, len(held), TOGETHER))]
        self.seen.update(id(cell) for fn in self.functions for cell in fn.__closure__ or ())

    def changed(self) -> list[Any]:
        """Return the objects whose references may have changed."""
        found = [x for holders, contents, held in self.held if not _are(get_referents(*holders), contents)
                 for holder, then, xs in held if not _are(get_referents(holder), then) for x in xs]
        if not _are([*map(_ORDER, self.classes)], self.orders):
            found += [x for x, then in zip(self.classes, self.orders) if x.__mro__ is not then]
        for part, then in zip(_PARTS, self.parts):
            if not all(map(is_, map(part, self.functions), then)):
                found += [fn for fn, was in zip(self.functions, then) if part(fn) is not was]
        if any(self.dicts):
            found += [fn for fn, own in zip(self.bare, self.dicts) if own]
        return found


_END = (object(),)


def _holders(x: Any) -> Iterator[Any]:
    """Yield the containers of an object's references."""
    if type(x) is FunctionType:
        yield from x.__closure__ or ()
        if x.__dict__:
            yield x.__dict__
        if x.__kwdefaults__:
            yield x.__kwdefaults__
    elif issubclass(type(x), type):
        yield get_referents(type.__dict__["__dict__"].__get__(x))[0]  # the dict behind the mappingproxy
    else:
        yield x
        own = attributes(x)
        if type(own) is dict:
            yield own


def _are(now: list[Any], then: list[Any]) -> bool:
    return len(now) == len(then) and all(map(is_, now, then))


_worlds: dict[tuple[Any, ...], ReferenceCache] = {}
ENDS: dict[tuple[Any, ...], dict[int, Any]] = {}  # by roots: the originals at which their closed world ends


def closed_world(key: tuple[Any, ...], make: Callable[[], ReferenceCache]) -> tuple[ReferenceCache, list[Any]]:
    """Return the closed world of a key's roots, and its objects that must be followed in this search."""
    world = _worlds.pop(key, None)
    changed = [] if world is None else world.changed()
    if world is not None:
        world.followed += len(changed)
    if world is None or world.followed > len(world.met):  # as much was followed again as finding it all anew takes
        world, changed = make(), []
    _worlds[key] = world  # at the end: the first entry was used longest ago
    for old in [*_worlds][:-KEPT]:
        _worlds.pop(old, None)
        ENDS.pop(old[:2], None)
    return world, [*world.open, *changed]
