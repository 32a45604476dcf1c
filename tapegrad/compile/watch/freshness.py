"""freshness: what a run read besides its arguments, and whether that is still the same.

A place is a name in a namespace: a global, an attribute, a default, a captured variable. What stood there when the code
that reads it began to run is what a tape was recorded with. A compiled call asks each place again: a number by its
value, an array by its content, a list or dict by what is in it, an object by those of its attributes that the code
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, is_, itemgetter
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

from tapegrad.compile.watch.checks import Check, Plain, Within, is_container
from tapegrad.compile.watch.namespaces import Attributes, Held, Typed
from tapegrad.trace.interposition import original
from tapegrad.tree.copies import class_of, code_of


class Missing:
    """What there is under a name that is not bound."""


class Place(NamedTuple):
    """A name in a namespace, what stood there when it was read, and how that is compared with what stands there now."""

    namespace: Mapping[Any, Any]
    name: Any
    value: Any
    same: Check
    label: str


class Shape(NamedTuple):
    """Which names a namespace has: how many, if that is `size`; how many of those that code mentions; just these
    `keys`, if code computes names.
    """

    namespace: Mapping[Any, Any]
    label: str
    size: int
    known: int
    keys: list[str] | None


def shape(namespace: Mapping[Any, Any], label: str, names: set[str], sized: bool, whole: bool) -> Shape:
    """Return which names a namespace has, of which code reads some; if it computes such names, the `whole` matters."""
    return Shape(namespace, label, len(namespace) if sized else -1, len(names.intersection(namespace)),
                 [*namespace] if whole else None)


class Freshness:
    """Says whether everything that a run read besides its arguments is what it was: `fresh()`.

    It is asked at every call, so what is asked most is sorted by how it is told soonest: by identity, many at once, in
    C; what is not the same thing is looked at one by one.
    """

    __slots__ = ("classes", "contents", "exact", "functions", "held", "names", "objects", "places", "plain", "quick",
                 "shapes", "sizes", "slow",
                 "some", "various")

    def __init__(self, places: Iterable[Place], shapes: Iterable[Shape], names: set[str]) -> None:
        self.places, self.shapes, self.names = list(places), list(shapes), names
        self.various: list[tuple[Any, Any, Any, Check]] = []
        self.slow: list[tuple[Any, Any, Check]] = []
        self.plain = _without_defaults(self.places)
        held: dict[str, list[tuple[Any, Any, Check]]] = {name: [] for name in _NAMED}
        bound: dict[int, list[tuple[Any, Any, Any, Check]]] = {}  # names of dicts, by namespace
        absent: dict[int, tuple[Any, set[Any]]] = {}
        objects: list[tuple[Any, type]] = []
        classes: list[tuple[type, Any]] = []
        self.contents = Within(place.same for place in self.places)
        for place in self.places:
            self._sort(*place[:4], held, bound, absent, objects, classes)
        # what fetches all of a namespace's names, that namespace, what stood there, and how each is looked at
        self.quick = [(_fetching([name for _, name, _, _ in parts]), parts[0][0],
                       tuple(value for _, _, value, _ in parts), parts)
                      for parts in bound.values()]
        self.held = [(_NAMED[name], [fn for fn, _, _ in parts], [value for _, value, _ in parts], parts)
                     for name, parts in held.items() if parts]
        self.functions = [*self.plain], [*self.plain.values()]
        self.objects = [x for x, _ in objects], [cls for _, cls in objects]
        self.classes = [cls for cls, _ in classes], [order for _, order in classes]
        exact = [(shape.namespace, shape.keys) for shape in self.shapes if shape.keys is not None]
        self.exact = [namespace for namespace, _ in exact], [keys for _, keys in exact]
        counted = [shape for shape in self.shapes if shape.keys is None]
        sizes = [(shape.namespace, shape.size) for shape in counted if shape.size >= 0]
        self.sizes = [namespace for namespace, _ in sizes], [size for _, size in sizes]
        # none of the known ones is gone: where all of a namespace's are known, none has come if there are as many
        self.some = [(shape.namespace.keys(), frozenset(names.difference(shape.namespace))) for shape in counted
                     if shape.size != shape.known]
        self.some += [(namespace.keys(), frozenset(lacking)) for namespace, lacking in absent.values()]

    def _sort(self, namespace: Any, name: Any, value: Any, same: Check, held: dict[str, list[tuple[Any, Any, Check]]],
              bound: dict[int, list[tuple[Any, Any, Any, Check]]], absent: dict[int, tuple[Any, set[Any]]],
              objects: list[tuple[Any, type]],
              classes: list[tuple[type, Any]]) -> None:
        kind = type(namespace)
        if type(same) is not Plain and not is_container(same):
            self.slow.append((namespace, name, same))
        elif kind in (dict, MappingProxyType) and value is not Missing:
            bound.setdefault(id(namespace), []).append((namespace, name, value, same))
        elif kind in (dict, MappingProxyType):
            absent.setdefault(id(namespace), (namespace, set()))[1].add(name)
        elif kind is Held and namespace.owner in self.plain and name in _PARTS:
            pass
        elif kind is Held and name in _NAMED:
            held[name].append((namespace.owner, value, same))
        elif kind is Typed and name == "__mro__":
            classes.append((namespace.owner, value))
        elif kind is Attributes and name == "__class__":
            objects.append((namespace.owner, value))
        else:
            self.various.append((namespace, name, value, same))

    def __call__(self) -> bool:
        try:
            for fetch, namespace, then, parts in self.quick:
                if not all(map(is_, fetch(namespace), then)):
                    for _, name, value, same in parts:
                        found = namespace[name]
                        if found is not value and not same(found):
                            return False
        except KeyError:
            return False
        functions, codes = self.functions
        if not all(map(is_, map(_CODE, functions), codes)):
            for fn, code in self.plain.items():
                if fn.__code__ is not code and not Plain(code)(code_of(fn)):
                    return False
        if any(map(_DEFAULTS, functions)) or any(map(_KWDEFAULTS, functions)):
            return False
        known, orders = self.classes
        if not all(map(is_, map(_MRO, known), orders)):
            return False
        objects, classes = self.objects
        if not all(map(is_, map(type, objects), classes)):
            for x, cls in zip(objects, classes):
                if type(x) is not cls and class_of(x) is not cls:
                    return False
        for fetch, owners, values, owned in self.held:
            # of a function that is replaced while a trace runs, the code is another
            if not all(map(is_, map(fetch, owners), values)):
                for fn, value, same in owned:
                    found = code_of(fn) if fetch is _CODE else fetch(fn)
                    if found is not value and not same(found):
                        return False
        for namespace, name, value, same in self.various:
            found = namespace.get(name, Missing)
            if found is not value and not same(found):
                return False
        namespaces, sizes = self.sizes
        if list(map(len, namespaces)) != sizes:
            return False
        for keys, lacking in self.some:  # goes through the fewer
            if not keys.isdisjoint(lacking):
                return False
        namespaces, exact = self.exact
        if list(map(list, namespaces)) != exact or not self.contents():
            return False
        for namespace, name, check in self.slow:  # noqa: SIM110  (no generator: asked at every call)
            if not check(namespace.get(name, Missing)):
                return False
        return True

    @property
    def keys(self) -> set[tuple[int, Any]]:
        """Which places it looks at, and which names it looks for."""
        shapes = {(id(shape.namespace), ("shape", shape.keys is None))
                  for shape in self.shapes} | {(0, frozenset(self.names))}
        return shapes | {(id(getattr(place.namespace, "owner", place.namespace)), place.name) for place in self.places}

    def changed(self) -> tuple[str, str, str] | None:
        """Return the label of a place that has changed, what stood there, and what does now;
        None where there is none.
        """
        for place in self.places:
            found = place.namespace.get(place.name, Missing)
            if not (found is place.value and place.same.__class__ is Plain) and not place.same(found):
                return place.label, _told(place.value), _told(original(found))
        for then in self.shapes:
            if shape(then.namespace, then.label, self.names, then.size >= 0, then.keys is not None) != then:
                return f"the attributes of {then.label}", "", ""
        return None

    def __bool__(self) -> bool:
        return bool(self.places or self.shapes)


_NAMED = {name: attrgetter(name) for name in ("__code__", "__name__", "__qualname__")}  # what every function has
_CODE = _NAMED["__code__"]
_DEFAULTS, _KWDEFAULTS, _MRO = attrgetter("__defaults__"), attrgetter("__kwdefaults__"), attrgetter("__mro__")
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")


def _fetching(names: list[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what fetches all of these names of a namespace."""
    if len(names) > 1:
        return itemgetter(*names)
    name = names[0]
    return lambda namespace: (namespace[name],)


def _without_defaults(places: list[Place]) -> dict[FunctionType, CodeType]:
    """Return the functions of which code and defaults are looked at, and that have no defaults."""
    held = {(place.namespace.owner, place.name): place.value for place in places if type(place.namespace) is Held
            and place.name in _PARTS}
    return {fn: code for (fn, part), code in held.items() if part == "__code__"
            and [held.get((fn, name), 0) for name in _PARTS[1:]] == [None, None]}


def _told(x: Any) -> str:
    text = "nothing" if x is Missing else repr(x)
    return text if len(text) < 60 else f"{text[:57]}..."
