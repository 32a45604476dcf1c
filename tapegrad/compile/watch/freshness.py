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

    It is asked at every call, so what there is to ask is sorted by how it is told soonest, and what there is nothing of
    takes no time.
    """

    __slots__ = ("checks", "names", "places", "shapes")

    def __init__(self, places: Iterable[Place], shapes: Iterable[Shape], names: set[str]) -> None:
        self.places, self.shapes, self.names = list(places), list(shapes), names
        plain = _without_defaults(self.places)
        kinds: dict[str, list[Place]] = {kind: [] for kind in _ASKED}
        for place in self.places:
            kinds[_kind_of(place, plain)].append(place)
        absent: dict[int, tuple[Any, set[Any]]] = {}
        for place in kinds["absent"]:
            absent.setdefault(id(place.namespace), (place.namespace, set()))[1].add(place.name)
        exact = [shape for shape in self.shapes if shape.keys is not None]
        counted = [shape for shape in self.shapes if shape.keys is None]
        sized = [shape for shape in counted if shape.size >= 0]
        # none of the known ones is gone: where all of a namespace's are known, none has come if there are as many
        some = [(shape.namespace.keys(), frozenset(names.difference(shape.namespace))) for shape in counted
                if shape.size != shape.known]
        some += [(namespace.keys(), frozenset(lacking)) for namespace, lacking in absent.values()]
        within = Within(place.same for place in self.places)
        self.checks: list[Callable[[], bool]] = [
            *(ask(kinds[kind]) for kind, ask in _ASKED.items() if ask is not None and kinds[kind]),
            *([_functions(plain)] if plain else []),
            *([_equal(len, sized, [shape.size for shape in sized])] if sized else []),
            *([_lacking(some)] if some else []),
            *([_equal(list, exact, [shape.keys for shape in exact])] if exact else []),
            *([within] if within else []),
            *([_content(kinds["content"])] if kinds["content"] else []),
        ]

    def __call__(self) -> bool:
        for check in self.checks:  # noqa: SIM110  (no generator: asked at every call)
            if not check():
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
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
MANY = 8  # from so many on it pays to compare all at once, in C


def _without_defaults(places: list[Place]) -> dict[FunctionType, CodeType]:
    """Return the functions of which code and defaults are looked at, and that have no defaults."""
    held = {(place.namespace.owner, place.name): place.value for place in places
            if type(place.namespace) is Held and place.name in _PARTS}
    return {fn: code for (fn, part), code in held.items()
            if part == "__code__" and [held.get((fn, name), 0) for name in _PARTS[1:]] == [None, None]}


def _kind_of(place: Place, plain: dict[FunctionType, CodeType]) -> str:
    """Return how a place is asked, a key of `_ASKED`."""
    namespace: Any = place.namespace
    _, name, value, same, _ = place
    kind: Any = type(namespace)
    if type(same) is not Plain and not is_container(same):
        return "content"
    if kind in (dict, MappingProxyType):
        return "absent" if value is Missing else "bound"
    if kind is Held and namespace.owner in plain and name in _PARTS:
        return "plain"
    if kind is Held and name in _NAMED:
        return name  # type: ignore[no-any-return]
    if kind is Typed and name == "__mro__":
        return "order"
    return "class" if kind is Attributes and name == "__class__" else "other"


# -- one kind of places: whether all of them hold what they held


def _bound(places: list[Place]) -> Callable[[], bool]:
    """Ask for names of dicts, for many of one dict at once."""
    spaces: dict[int, list[Place]] = {}
    for place in places:
        spaces.setdefault(id(place.namespace), []).append(place)
    one_by_one = [place for parts in spaces.values() if len(parts) < MANY for place in parts]
    at_once = [(itemgetter(*[place.name for place in parts]), parts[0].namespace,
                [place.value for place in parts], parts) for parts in spaces.values() if len(parts) >= MANY]

    def ask() -> bool:
        try:
            for namespace, name, value, same, _ in one_by_one:
                found = namespace[name]
                if found is not value and not same(found):
                    return False
            for fetch, namespace, values, parts in at_once:
                if not all(map(is_, fetch(namespace), values)) and not all(
                        same(namespace[name]) for _, name, _, same, _ in parts):
                    return False
        except KeyError:
            return False
        return True
    return ask


def _functions(plain: dict[FunctionType, CodeType]) -> Callable[[], bool]:
    """Ask for the code of functions that have no defaults, and for defaults."""
    functions, codes = list(plain), list(plain.values())
    code, defaults, named = map(attrgetter, _PARTS)

    def one_by_one() -> bool:
        for fn, own in plain.items():
            if (fn.__code__ is not own and not Plain(own)(code_of(fn))) or fn.__defaults__ is not None \
                    or fn.__kwdefaults__ is not None:
                return False
        return True

    def ask() -> bool:
        if all(map(is_, map(code, functions), codes)) and not any(map(defaults, functions)) \
                and not any(map(named, functions)):
            return True
        return one_by_one()
    return one_by_one if len(plain) < MANY else ask


def _identical(fetch: Callable[[Any], Any],
               otherwise: Callable[[Any], Any]) -> Callable[[list[Place]], Callable[[], bool]]:
    """Ask the owners of places; where what they say is another thing, for what there is while a trace replaces it."""
    def of(places: list[Place]) -> Callable[[], bool]:
        owners: list[Any] = [place.namespace.owner for place in places]  # type: ignore[attr-defined]
        values = [place.value for place in places]

        def ask() -> bool:
            return all(map(is_, map(fetch, owners), values)) or all(
                (found := otherwise(owner)) is place.value or place.same(found) for owner, place in zip(owners, places))
        return ask
    return of


def _each(places: list[Place]) -> Callable[[], bool]:
    """Ask for places one by one."""
    def ask() -> bool:
        for namespace, name, value, same, _ in places:
            found = namespace.get(name, Missing)
            if found is not value and not same(found):
                return False
        return True
    return ask


def _content(places: list[Place]) -> Callable[[], bool]:
    """Ask what is in what stands in places, though it be the same thing."""
    def ask() -> bool:
        for namespace, name, _, same, _ in places:  # noqa: SIM110  (no generator: asked at every call)
            if not same(namespace.get(name, Missing)):
                return False
        return True
    return ask


def _equal(of: Callable[[Any], Any], shapes: list[Shape], then: list[Any]) -> Callable[[], bool]:
    """Ask for what namespaces are together."""
    namespaces = [shape.namespace for shape in shapes]
    return lambda: list(map(of, namespaces)) == then


def _lacking(some: list[tuple[Any, frozenset[Any]]]) -> Callable[[], bool]:
    """Ask whether names are bound that were not."""
    def ask() -> bool:
        for keys, lacking in some:  # noqa: SIM110  (goes through the fewer)
            if not keys.isdisjoint(lacking):
                return False
        return True
    return ask


_ASKED: dict[str, Callable[[list[Place]], Callable[[], bool]] | None] = {
    "bound": _bound, "plain": None, "absent": None,
    "order": _identical(attrgetter("__mro__"), attrgetter("__mro__")), "class": _identical(type, class_of),
    **{name: _identical(fetch, code_of if name == "__code__" else fetch) for name, fetch in _NAMED.items()},
    "other": _each, "content": None,
}
"""How the places of each kind are asked, and in which order; None of those that are asked with others, or last."""


def _told(x: Any) -> str:
    try:
        text = "nothing" if x is Missing else repr(x)
    except Exception:  # of a class of the user's
        text = f"a {type(x).__name__}"
    return text if len(text) < 60 else f"{text[:57]}..."
