"""freshness: what a run read besides its arguments, and whether that is still the same.

A place is a name in a namespace: a global, an attribute, a default, a captured variable. What stood there when the code that reads it began to run
is what a tape was recorded with. A compiled call asks each place again: a number by its value, an array by its content, a list or dict by what
is in it, an object by those of its attributes that the code names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import is_
from types import (
    CodeType,
)
from typing import Any, NamedTuple

import numpy as np

from tapegrad.alike import alike, kind_of, parts_of, values_of
from tapegrad.interpose import original
from tapegrad.lazy import torch
from tapegrad.trace import print_of


class Missing:
    """What there is under a name that is not bound."""


PLAIN: tuple[type, ...] = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype, np.ufunc, CodeType, Enum)
Check = Callable[[Any], bool]
"""Says of what is found whether it is the same as what there was."""


class Place(NamedTuple):
    """A name in a namespace, what stood there when it was read, and how that is compared with what stands there now."""

    namespace: Mapping[Any, Any]
    name: Any
    value: Any
    same: Check
    label: str


class Freshness:
    """Says whether everything that a run read besides its arguments is what it was: `fresh()`."""

    __slots__ = ("places", "quick", "sizes", "slow")

    def __init__(self, places: Iterable[Place], sizes: Iterable[tuple[Mapping[Any, Any], int, str]]) -> None:
        self.places, self.sizes = list(places), list(sizes)
        self.quick = [(place.namespace, place.name, place.value, place.same) for place in self.places if place.same.__class__ is Plain]
        self.slow = [(place.namespace, place.name, place.same) for place in self.places if place.same.__class__ is not Plain]

    def __call__(self) -> bool:
        for namespace, name, value, same in self.quick:
            found = namespace.get(name, Missing)
            if found is not value and not same(found):
                return False
        for names, size, _ in self.sizes:
            if len(names) != size:
                return False
        for namespace, name, check in self.slow:  # noqa: SIM110  (no generator: asked at every call)
            if not check(namespace.get(name, Missing)):
                return False
        return True

    @property
    def keys(self) -> set[tuple[int, Any]]:
        """Which places it looks at."""
        return {(id(getattr(place.namespace, "owner", place.namespace)), place.name) for place in self.places}

    def changed(self) -> tuple[str, str, str] | None:
        """Return the label of a place that has changed, what stood there, and what does now; None where there is none."""
        for place in self.places:
            found = place.namespace.get(place.name, Missing)
            if not (found is place.value and place.same.__class__ is Plain) and not place.same(found):
                return place.label, _told(place.value), _told(original(found))
        for names, size, label in self.sizes:
            if len(names) != size:
                return label, f"{size} attributes", f"{len(names)}"
        return None

    def __bool__(self) -> bool:
        return bool(self.places or self.sizes)


def _told(x: Any) -> str:
    text = "nothing" if x is Missing else repr(x)
    return text if len(text) < 60 else f"{text[:57]}..."


# -- is what is found what there was?


class Plain:
    """What is one thing for good: a number, a text, a function, an object, known by identity or, where it has one, by value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, found: Any) -> bool:
        value = self.value
        return found is value or original(found) is value or (isinstance(value, PLAIN) and alike(found, value))


class Sequence:
    """What is in a list, tuple or deque, item by item. A class of the user's is not asked for it: it might do anything."""

    __slots__ = ("items", "kind", "then", "walk")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.kind, self.then = type(value), parts_of(value)
        base: Any = kind_of(value)
        self.walk = base.__iter__
        self.items = None if all(type(check) is Plain for check in checks) else checks

    def __call__(self, found: Any) -> bool:
        return type(found) is self.kind and _are_same(list(self.walk(found)), self.then, self.items)


class Table:
    """What is in a dict, key by key, in its order."""

    __slots__ = ("items", "keys", "kind", "read", "values", "walk")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.kind, self.keys, self.values = type(value), parts_of(value), values_of(value)
        base: Any = kind_of(value)
        self.walk, self.read = base.__iter__, base.values
        self.items = None if all(type(check) is Plain for check in checks) else checks

    def __call__(self, found: Any) -> bool:
        if type(found) is not self.kind:
            return False
        keys = list(self.walk(found))
        return len(keys) == len(self.keys) and (all(map(is_, keys, self.keys)) or alike(keys, self.keys)) \
            and _are_same(list(self.read(found)), self.values, self.items)


def _are_same(found: list[Any], then: list[Any], checks: list[Any] | None) -> bool:
    """Return whether parts are what they were: things for good, or what `checks` say of them."""
    if len(found) != len(then):
        return False
    if checks is not None:
        return all(check(part) for check, part in zip(checks, found))
    return all(map(is_, found, then)) or all(Plain(value)(part) for value, part in zip(then, found))


class Array:
    """The numbers of an array: unless nobody can write to it, they are compared."""

    __slots__ = ("held", "value")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.value = value
        self.held = None if is_sealed(value) else _held(value)

    def __call__(self, found: Any) -> bool:
        value, held = self.value, self.held
        if held is None:
            if found is value:
                return True
            held = _held(value)
        return type(found) is type(value) and found.shape == value.shape and found.dtype == value.dtype and found.strides == value.strides \
            and _is_held(found, held)


class Sample:
    """Some of the numbers of an array."""

    __slots__ = ("kind", "then")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.kind, self.then = (type(value), value.dtype, value.shape), print_of(value)

    def __call__(self, found: Any) -> bool:
        return isinstance(found, np.ndarray) and (type(found), found.dtype, found.shape) == self.kind and print_of(found) == self.then


def is_sealed(x: np.ndarray[Any, Any]) -> bool:
    """True for an array to which nobody can write."""
    return not x.flags.writeable and x.base is None


def _held(x: np.ndarray[Any, Any]) -> Any:
    if x.dtype.hasobject:
        return [(id(part), repr(part)) for part in x.flat]
    return _bits(x).copy()


def _is_held(found: np.ndarray[Any, Any], held: Any) -> bool:
    return _held(found) == held if found.dtype.hasobject else bool((_bits(found) == held).all())


def _bits(x: np.ndarray[Any, Any]) -> Any:
    """Return the memory of an array of numbers as whole numbers, where it lies without gaps; a copy of it otherwise."""
    flat = np.asarray(x).ravel(order="K").view(np.uint8)
    return flat.view(np.uint64) if flat.size % 8 == 0 else flat


class Tensor:
    """The numbers of a tensor, and what torch knows besides."""

    __slots__ = ("held", "kind", "trained", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.kind, self.trained, self.held = value, type(value), value.requires_grad, value.detach().clone()

    def __call__(self, found: Any) -> bool:
        held = self.held
        return type(found) is self.kind and found.requires_grad == self.trained and found.shape == held.shape and found.dtype == held.dtype \
            and found.device == held.device and torch.equal(found.detach(), held)


class Bytes:
    """What is in a bytearray, or in an array of the standard library's."""

    __slots__ = ("kind", "then")

    def __init__(self, value: Any) -> None:
        self.kind, self.then = type(value), bytes(value)

    def __call__(self, found: Any) -> bool:
        return type(found) is self.kind and bytes(found) == self.then


class Members:
    """What is in a set."""

    __slots__ = ("kind", "then")

    def __init__(self, value: Any) -> None:
        self.kind, self.then = type(value), frozenset(parts_of(value))

    def __call__(self, found: Any) -> bool:
        return type(found) is self.kind and alike(frozenset(parts_of(found)), self.then)


class Cached:
    """A function with a cache, as long as that is not cleared; once `settled`, as long as nobody asks it either: a compiled call does not."""

    __slots__ = ("info", "settled", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.info, self.settled = value, value.cache_info(), False

    def settle(self) -> bool:
        """Take the cache as the run has left it; return whether it was not cleared meanwhile."""
        if not self(self.value):
            return False
        self.info, self.settled = self.value.cache_info(), True
        return True

    def __call__(self, found: Any) -> bool:
        if found is not self.value:
            return False
        now, then = self.value.cache_info(), self.info
        return now == then if self.settled else bool(now.hits >= then.hits and now.misses >= then.misses and now.currsize >= then.currsize)


class Never:
    """What nobody can compare: an iterator, which is used up."""

    __slots__ = ()

    def __call__(self, found: Any) -> bool:
        return False
