"""freshness: the freshness check of a compiled call: whether all that the recorded run read besides its arguments is
unchanged.

A place is a (namespace, name) pair that the traced code read: a global, an attribute, a default, a captured variable.
The tape was recorded with the value there when the code began to run. A compiled call compares each place again:
numbers by value, arrays by content, lists and dicts by their items, objects by the attributes that the code names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tapegrad.compile.watch.checks import Check, Plain, Within, is_container
from tapegrad.compile.watch.namespaces import Attributes, Held, Typed
from tapegrad.trace.interposition import original


class Missing:
    """Stands for the value of an unbound name."""


class Place(NamedTuple):
    """A name in a namespace, its value when it was read, the check that compares the current value with that one, and
    a label for messages.
    """

    namespace: Mapping[Any, Any]
    name: Any
    value: Any
    same: Check
    label: str


class Shape(NamedTuple):
    """The names of a namespace: their number `size` (-1: not compared), the number `known` of those that code mentions,
    and all `keys` if code computes names.
    """

    namespace: Mapping[Any, Any]
    label: str
    size: int
    known: int
    keys: list[str] | None


def shape(namespace: Mapping[Any, Any], label: str, names: set[str], sized: bool, whole: bool) -> Shape:
    """Return the Shape of a namespace: with its size if `sized`, with all keys if code may read the `whole`."""
    return Shape(namespace, label, len(namespace) if sized else -1, len(names.intersection(namespace)),
                 [*namespace] if whole else None)


class Freshness:
    """A callable that returns whether everything that a run read besides its arguments is unchanged."""

    __slots__ = ("_absent", "_content", "_held", "_within", "names", "places", "shapes")

    def __init__(self, places: Iterable[Place], shapes: Iterable[Shape], names: set[str]) -> None:
        self.places, self.shapes, self.names = list(places), list(shapes), names
        held = [type(place.same) is Plain or is_container(place.same) for place in self.places]
        self._held = [(*_fetched(place), place.value, place) for place, is_held in zip(self.places, held) if is_held]
        self._content = [place for place, is_held in zip(self.places, held) if not is_held]
        # bound names are compared as places; a namespace with only known names gained none if its size is unchanged
        self._absent = [(shape.namespace.keys(), frozenset(names.difference(shape.namespace))) for shape in self.shapes
                        if shape.keys is None and shape.size != shape.known]
        self._within = Within(place.same for place in self.places)

    def __call__(self) -> bool:
        for fetch, owner, name, value, place in self._held:
            if fetch(owner, name, Missing) is not value and not place.same(place.namespace.get(name, Missing)):
                return False
        for namespace, _, size, _, keys in self.shapes:
            if [*namespace] != keys if keys is not None else 0 <= size != len(namespace):
                return False
        for present, lacking in self._absent:
            if not present.isdisjoint(lacking):
                return False
        for namespace, name, _, same, _ in self._content:
            if not same(namespace.get(name, Missing)):
                return False
        return self._within()

    @property
    def keys(self) -> set[tuple[int, Any]]:
        """The places compared and the names whose appearance matters, as hashable keys."""
        shapes = {(id(shape.namespace), ("shape", shape.keys is None))
                  for shape in self.shapes} | {(0, frozenset(self.names))}
        return shapes | {(id(getattr(place.namespace, "owner", place.namespace)), place.name) for place in self.places}

    def changed(self) -> tuple[str, str, str] | None:
        """Return label, old and new value of a place that has changed, None if all are unchanged."""
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


def _fetched(place: Place) -> tuple[Any, Any, Any]:
    """Return (fetch, owner, name), where fetch(owner, name, default) reads a place's current value, which may be a
    stand-in that a trace put there.
    """
    namespace: Any = place.namespace
    if type(namespace) in (Held, Typed, Attributes) and type(place.name) is str and place.name not in (
            "__class__", "__dict__"):
        return getattr, namespace.owner, place.name
    return type(namespace).get, namespace, place.name


def _told(x: Any) -> str:
    try:
        text = "nothing" if x is Missing else repr(x)
    except Exception:  # raised by a user's class
        text = f"a {type(x).__name__}"
    return text if len(text) < 60 else f"{text[:57]}..."
