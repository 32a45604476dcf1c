"""freshness: what a run read besides its arguments, and whether that is still the same.

A place is a name in a namespace: a global, an attribute, a default, a captured variable. What stood there when the code
that reads it began to run is what a tape was recorded with. A compiled call asks each place again: a number by its
value, an array by its content, a list or dict by what is in it, an object by those of its attributes that the code
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import attrgetter, is_
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tapegrad.compile.watch.namespaces import Attributes, Held, Typed
from tapegrad.compile.watch.wrappers import kept_in
from tapegrad.numbers.equality import alike, parts_of, values_of
from tapegrad.numbers.lazy import torch
from tapegrad.tape.tape import Constant, Tape
from tapegrad.trace.interposition import original
from tapegrad.trace.tracer import print_of
from tapegrad.tree.copies import class_of, code_of


class Missing:
    """What there is under a name that is not bound."""


FEW = 1 << 12  # bytes that are compared in less time than a call takes
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
    return Shape(namespace, label, len(namespace) if sized else -1, len(names.intersection(namespace)), [*namespace] if whole else None)


class Freshness:
    """Says whether everything that a run read besides its arguments is what it was: `fresh()`.

    It is asked at every call, so what is asked most is sorted by how it is told soonest.
    """

    __slots__ = ("exact", "held", "names", "objects", "places", "plain", "quick", "shapes", "sizes", "slow", "some", "typed", "various")

    def __init__(self, places: Iterable[Place], shapes: Iterable[Shape], names: set[str]) -> None:
        self.places, self.shapes, self.names = list(places), list(shapes), names
        self.quick: list[tuple[Any, Any, Any, Check]] = []  # bound names of dicts
        self.various: list[tuple[Any, Any, Any, Check]] = []
        self.slow: list[tuple[Any, Any, Check]] = []
        self.plain = _without_defaults(self.places)
        held: dict[str, list[tuple[Any, Any, Check]]] = {name: [] for name in _NAMED}
        absent: dict[int, tuple[Any, set[Any]]] = {}  # by namespace
        self.typed: list[tuple[type, Any]] = []
        self.objects: list[tuple[Any, type]] = []
        for place in self.places:
            self._sort(*place[:4], held, absent)
        self.held = [(_NAMED[name], [fn for fn, _, _ in parts], [value for _, value, _ in parts], parts) for name, parts in held.items() if parts]
        self.exact = [(shape.namespace, shape.keys) for shape in self.shapes if shape.keys is not None]
        counted = [shape for shape in self.shapes if shape.keys is None]
        self.sizes = [(shape.namespace, shape.size) for shape in counted if shape.size >= 0]
        # none of the known ones is gone: where all of a namespace's are known, none has come if there are as many
        self.some = [(shape.namespace.keys(), frozenset(names.difference(shape.namespace))) for shape in counted if shape.size != shape.known]
        self.some += [(namespace.keys(), frozenset(lacking)) for namespace, lacking in absent.values()]

    def _sort(self, namespace: Any, name: Any, value: Any, same: Check, held: dict[str, list[tuple[Any, Any, Check]]],
              absent: dict[int, tuple[Any, set[Any]]]) -> None:
        kind = type(namespace)
        if type(same) is not Plain:
            self.slow.append((namespace, name, same))
        elif kind in (dict, MappingProxyType) and value is not Missing:
            self.quick.append((namespace, name, value, same))
        elif kind in (dict, MappingProxyType):
            absent.setdefault(id(namespace), (namespace, set()))[1].add(name)
        elif kind is Held and namespace.owner in self.plain and name in _PARTS:
            pass
        elif kind is Held and name in _NAMED:
            held[name].append((namespace.owner, value, same))
        elif kind is Typed and name == "__mro__":
            self.typed.append((namespace.owner, value))
        elif kind is Attributes and name == "__class__":
            self.objects.append((namespace.owner, value))
        else:
            self.various.append((namespace, name, value, same))

    def __call__(self) -> bool:
        try:
            for namespace, name, value, same in self.quick:
                found = namespace[name]
                if found is not value and not same(found):
                    return False
        except KeyError:
            return False
        for fn, code in self.plain.items():
            if (fn.__code__ is not code and not Plain(code)(code_of(fn))) or fn.__defaults__ is not None or fn.__kwdefaults__ is not None:
                return False
        for cls, order in self.typed:
            if cls.__mro__ is not order:
                return False
        for x, cls in self.objects:
            if type(x) is not cls and class_of(x) is not cls:
                return False
        for fetch, functions, values, parts in self.held:
            # of a function that is replaced while a trace runs, the code is another
            if not all(map(is_, map(fetch, functions), values)):
                for fn, value, same in parts:
                    found = code_of(fn) if fetch is _CODE else fetch(fn)
                    if found is not value and not same(found):
                        return False
        for namespace, name, value, same in self.various:
            found = namespace.get(name, Missing)
            if found is not value and not same(found):
                return False
        for namespace, size in self.sizes:
            if len(namespace) != size:
                return False
        for keys, lacking in self.some:  # goes through the fewer
            if not keys.isdisjoint(lacking):
                return False
        for names, known in self.exact:
            if [*names] != known:
                return False
        for namespace, name, check in self.slow:  # noqa: SIM110  (no generator: asked at every call)
            if not check(namespace.get(name, Missing)):
                return False
        return True

    @property
    def keys(self) -> set[tuple[int, Any]]:
        """Which places it looks at, and which names it looks for."""
        shapes = {(id(shape.namespace), ("shape", shape.keys is None)) for shape in self.shapes} | {(0, frozenset(self.names))}
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
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")


def _without_defaults(places: list[Place]) -> dict[FunctionType, CodeType]:
    """Return the functions of which code and defaults are looked at, and that have no defaults."""
    held = {(place.namespace.owner, place.name): place.value for place in places if type(place.namespace) is Held and place.name in _PARTS}
    return {fn: code for (fn, part), code in held.items() if part == "__code__" and [held.get((fn, name), 0) for name in _PARTS[1:]] == [None, None]}


def _told(x: Any) -> str:
    text = "nothing" if x is Missing else repr(x)
    return text if len(text) < 60 else f"{text[:57]}..."


# -- is what is found what there was?


class Plain:
    """What is one thing for good: a number, a text, a function, an object, known by identity
    or, where it has one, by value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, found: Any) -> bool:
        value = self.value
        return found is value or original(found) is value or (isinstance(value, PLAIN) and alike(found, value))


class Sequence:
    """What is in a list, tuple or deque, item by item. A class of the user's is not asked
    for it: it might do anything.
    """

    __slots__ = ("items", "kind", "then")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.kind, self.then = type(value), [original(part) for part in parts_of(value)]
        self.items = None if all(type(check) is Plain for check in checks) else checks

    def __call__(self, found: Any) -> bool:
        return type(found) is self.kind and _are_same(parts_of(found), self.then, self.items)


class Table:
    """What is in a dict, key by key, in its order."""

    __slots__ = ("items", "keys", "kind", "values")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.kind, self.keys, self.values = type(value), parts_of(value), [original(part) for part in values_of(value)]
        self.items = None if all(type(check) is Plain for check in checks) else checks

    def __call__(self, found: Any) -> bool:
        return type(found) is self.kind and _are_same(parts_of(found), self.keys, None) and _are_same(values_of(found), self.values, self.items)


def _are_same(found: list[Any], then: list[Any], checks: list[Any] | None) -> bool:
    """Return whether parts are what they were: things for good, or what `checks` say of them."""
    if len(found) != len(then):
        return False
    if checks is not None:
        return all(check(part) for check, part in zip(checks, found))
    return all(map(is_, found, then)) or all(Plain(value)(part) for value, part in zip(then, found))


class Array:
    """The numbers of an array. Of a large one to which nobody can write, some will do."""

    __slots__ = ("bytes", "held", "kind", "value")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.value, self.kind = value, _kind(value)  # which may be set in place
        self.bytes = np.ndarray.tobytes(value) if value.nbytes <= FEW and not value.dtype.hasobject else None
        self.held = None if self.bytes is not None or (is_sealed(value) and value.nbytes > FEW) else _held(value)

    def __call__(self, found: Any) -> bool:
        if not isinstance(found, np.ndarray) or _kind(found) != self.kind:
            return False
        if self.bytes is not None:
            return np.ndarray.tobytes(found) == self.bytes
        if self.held is not None:
            return _is_held(found, self.held)
        return found is self.value or (is_sealed(self.value) and _is_held(found, _held(self.value)))


def _kind(x: np.ndarray[Any, Any]) -> Any:
    return type(x), x.shape, x.dtype, x.strides, is_sealed(x)


class Objects:
    """What is in an array of objects, one by one."""

    __slots__ = ("items", "kind")

    def __init__(self, value: np.ndarray[Any, Any], checks: list[Check]) -> None:
        self.kind, self.items = (type(value), value.shape), Sequence(list(value.flat), checks)

    def __call__(self, found: Any) -> bool:
        return isinstance(found, np.ndarray) and (type(found), found.shape) == self.kind and found.dtype.hasobject and self.items(list(found.flat))


class Sample:
    """Some of the numbers of an array."""

    __slots__ = ("kind", "then")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.kind, self.then = (type(value), value.dtype, value.shape), print_of(np.asarray(value))

    def __call__(self, found: Any) -> bool:
        return isinstance(found, np.ndarray) and (type(found), found.dtype, found.shape) == self.kind and print_of(np.asarray(found)) == self.then


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
        self.kind, self.then = type(value), parts_of(value)  # in their order, which depends on how they came in

    def __call__(self, found: Any) -> bool:
        return type(found) is self.kind and _are_same(parts_of(found), self.then, None)


class Cached:
    """A function with a cache, as long as that is not cleared; once `settled`, as long as what it kept then is there:
    of a compiled call nobody asks it.
    """

    __slots__ = ("info", "kept", "settled", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.info, self.settled = value, value.cache_info(), False
        self.kept: dict[int, tuple[Any, Any]] | None = None

    def settle(self) -> bool:
        """Take the cache as the run has left it; return whether it was not cleared meanwhile."""
        if not self(self.value):
            return False
        self.info, self.settled, self.kept = self.value.cache_info(), True, kept_in(self.value)
        return True

    def __call__(self, found: Any) -> bool:
        if found is not self.value:
            return False
        now, then = self.value.cache_info(), self.info
        if not self.settled:
            return bool(now.hits >= then.hits and now.misses >= then.misses and now.currsize >= then.currsize)
        if now == then:
            return True
        kept = None if self.kept is None else kept_in(self.value)
        if kept is None or self.kept is None or any(key not in kept or kept[key][1] is not result for key, (_, result) in self.kept.items()):
            return False
        self.info = now
        return True


class Edits:
    """The operations of a tape, which the program may play, and others edit."""

    __slots__ = ("then", "value")

    def __init__(self, value: Tape) -> None:
        self.value, self.then = value, _operations(value)

    def __call__(self, found: Any) -> bool:
        if found is not self.value:
            return False
        now = _operations(found)
        return len(now) == len(self.then) and all(map(is_, now, self.then))


def _operations(tape: Tape) -> list[Any]:
    """Return what a tape's operations are made of, which an edit replaces."""
    return [tape.result, *[part for op in tape.ops for part in (op, op.val if type(op) is Constant else op.args, getattr(op, "fn", None))]]


class Never:
    """What nobody can compare: an iterator, which is used up."""

    __slots__ = ()

    def __call__(self, found: Any) -> bool:
        return False
