"""nodes: the nodes of a nested structure; each rebuilds its part around other leaves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from types import CellType, FunctionType, MethodType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numbers.equality import alike, snapshot
from tapegrad.numbers.lazy import optree
from tapegrad.numbers.nested import tuple_of
from tapegrad.numbers.object_state import settings_of
from tapegrad.numbers.quantities import Measure, measure_of, quantities_of
from tapegrad.tree.copies import base_of, beside, class_of, code_of, dict_of, empty_like, space_of
from tapegrad.tree.dicts import STR, Names, dict_with
from tapegrad.tree.ways import rebound_to

GRADIENT = -1  # memo key of the unit of the differentiated value, in a mirror of gradients
NAMESPACE = "tapegrad"  # optree namespace for types that users register for tapegrad alone
_OPEN = object()  # marks a mirror that is being built


class Leaf:
    """The position of one leaf."""

    __slots__ = ("index",)
    leafy = True

    def __init__(self, index: int) -> None:
        self.index = index

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return leaves[self.index]

    mirror = build

    def key(self, seen: dict[int, int]) -> Any:
        return ("*", self.index)


class Static:
    """An immutable part without leaves: it is passed on unchanged and has no gradient."""

    __slots__ = ("value",)
    leafy = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return self.value

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return self.value if is_hollow(self) else None

    def key(self, seen: dict[int, int]) -> Any:
        return ("static", self.value)


class Function(Static):
    """A Python function without captured variables; any other with the same code and defaults is equivalent."""

    __slots__ = ()

    def key(self, seen: dict[int, int]) -> Any:
        fn = self.value
        return ("function", code_of(fn), space_of(fn), fn.__defaults__, fn.__kwdefaults__, fn.__dict__)


class Content(Static):
    """A mutable part passed on unchanged, such as an array of strings: a tape holds while its content is the same."""

    __slots__ = ("then",)

    def __init__(self, value: Any) -> None:
        self.value, self.then = value, snapshot(value)

    def key(self, seen: dict[int, int]) -> Any:
        return ("content", self.then)


class Made(Content):
    """An array without numbers that a program returns, of strings for example; each call returns a new copy."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), copy(self.value))


class Fresh(Static):
    """A set, or another mutable part without parts: copied, so that no proxy or change passes between caller and copy.
    """

    __slots__ = ()
    volatile = True

    def __init__(self, value: Any) -> None:
        self.value = _copied(value)

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), _copied(self.value))


def _copied(x: Any) -> Any:
    if type(x) is set or type(x) is bytearray:
        return x.copy()
    new = empty_like(x, class_of(x))
    base_of(x).__init__(new, base_of(x).__iter__(x))
    for name, part in beside(x).items():
        object.__setattr__(new, name, part)
    return new


class Level(NamedTuple):
    """One level of a container, as optree flattens it: parts, metadata, names of the parts, rebuilding function."""

    children: Sequence[Any]
    metadata: Any
    entries: Iterable[Any]
    make: Callable[[Any, Any], Any]


_PLAIN: dict[type, Callable[[Any, Any], Any]] = {tuple: lambda metadata, parts: tuple(parts),
                                                 list: lambda metadata, parts: list(parts)}


def is_container(x: Any) -> bool:
    """True for a container that optree can flatten."""
    kind: Any = type(x)
    if kind in _PLAIN or kind is dict or quantities_of(kind) is not None:
        return True
    return not optree.tree_is_leaf(x, none_is_leaf=True, namespace=NAMESPACE)


def level(x: Any) -> Level:
    """Flatten one level of a container; tuples, lists and dicts with names as keys much faster than optree does."""
    make = _PLAIN.get(type(x))
    if make is not None:
        return Level(x, None, range(len(x)), make)
    if type(x) is dict and STR.issuperset(map(type, x)):
        names = Names(x)
        return Level([x[name] for name in names], names, names, dict_with)
    if type(x) is slice:
        return Level((x.start, x.stop, x.step), None, ("start", "stop", "step"), lambda metadata, parts: slice(*parts))
    measure = measure_of(x)
    if measure is not None:
        return Level((measure.known.number(x),), measure, ("magnitude",), lambda measure, parts: measure.make(*parts))
    children, metadata, entries, make = optree.tree_flatten_one_level(x, none_is_leaf=True, namespace=NAMESPACE)[:4]
    return Level(children, metadata, entries, tuple_of if isinstance(x, tuple) and metadata is type(x) else make)


class Container:
    """A tuple, list, dict, namedtuple or registered type: any container that optree flattens."""

    __slots__ = ("children", "leafy", "make", "metadata", "type", "volatile")

    def __init__(self, x: Any, parts: Level | None = None) -> None:
        self.leafy, self.volatile = False, not isinstance(x, tuple)
        self.type = type(x)
        self.children: list[Any] = []
        parts = level(x) if parts is None else parts
        self.metadata, self.make = parts.metadata, parts.make

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        key = id(self)
        if key not in memo:
            memo[key] = _OPEN
            made = self.make(self.metadata, tuple([child.build(leaves, memo) for child in self.children]))
            memo[key] = made
        elif memo[key] is _OPEN:
            raise ArgumentError(f"a {self.type.__name__} that contains itself cannot be flattened", None,
                                "use an object of a class instead, which may refer to itself")
        return memo[key]

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not self.leafy and not is_hollow(self):
            return None
        parts = tuple([child.mirror(leaves, memo) for child in self.children])
        if type(self.metadata) is Measure and GRADIENT in memo:
            return self.metadata.per(parts[0], memo[GRADIENT])
        return self.make(self.metadata, parts)

    def key(self, seen: dict[int, int]) -> Any:
        metadata = self.metadata if hasattr(self.metadata, "exact") else repr(self.metadata)
        return _first(self, seen) or (self.type, metadata, self.order(),
                                      tuple(child.key(seen) for child in self.children))

    def order(self) -> list[Any]:
        """Return the keys of a dict in its own order, which differs from `children`'s; [] for another container."""
        if not issubclass(self.type, dict):
            return []
        return list(self.make(self.metadata, tuple(self.children)))  # type: ignore[call-overload]


def is_hollow(part: Any, inside: tuple[int, ...] = ()) -> bool:
    """True for an empty container, or one of empty containers only: its gradient is a copy of it."""
    if isinstance(part, Container):
        return id(part) not in inside and all(is_hollow(child, (*inside, id(part))) for child in part.children)
    return isinstance(part, Static) and isinstance(part.value, tuple) and all(is_hollow(Static(child))
                                                                              for child in part.value)


def _first(node: Any, seen: dict[int, int]) -> Any:
    """Number a node at its first occurrence in a key; return a back reference for a later one."""
    if id(node) in seen:
        return ("again", seen[id(node)])
    seen[id(node)] = len(seen)
    return None


class Record:
    """An object with named parts: attributes, or captured variables. It may refer to itself."""

    __slots__ = ("children", "cls", "leafy", "names", "prototype")
    volatile = False

    def __init__(self, prototype: Any, names: list[Any]) -> None:
        self.prototype, self.names, self.leafy = prototype, names, False
        self.cls = class_of(prototype)  # the program may assign `__class__`
        self.children: list[Any] = []

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            shell, fill = self.shell(memo)
            memo[id(self)] = shell  # before its parts, which may refer to it
            fill({name: child.build(leaves, memo) for name, child in zip(self.names, self.children)})
        return memo[id(self)]

    def shell(self, memo: dict[int, Any]) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        raise NotImplementedError

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        """Return the gradients by name; references back to this node or to enclosing ones have none of their own."""
        if not self.leafy:
            return None
        if id(self) not in memo:
            memo[id(self)] = _OPEN
            memo[id(self)] = {name: child.mirror(leaves, memo) for name, child in zip(self.names, self.children)
                              if child.leafy and memo.get(id(child)) is not _OPEN}
        return memo[id(self)]

    def key(self, seen: dict[int, int]) -> Any:
        return _first(self, seen) or (type(self), *self.kind(), tuple(self.names),
                                      tuple(child.key(seen) for child in self.children))

    def kind(self) -> tuple[Any, ...]:
        """Return the facts that must agree besides the parts."""
        return (self.cls,)


class Instance(Record):
    """An object of a user's class; its gradient is an object of the same class."""

    __slots__ = ()
    volatile = True

    def shell(self, memo: dict[int, Any]) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        cls = self.cls
        new: Any = (SimpleNamespace if issubclass(cls, SimpleNamespace) else object).__new__(cls)

        def fill(parts: dict[str, Any]) -> None:
            held = getattr(self.prototype, "__dict__", None)
            own = held.keys() if type(held) is dict else set()
            for name in [] if parts.keys() <= own else [name for name in parts if name not in own]:
                object.__setattr__(new, name, parts.pop(name))  # works for frozen dataclasses
            if parts:
                new.__dict__.update(parts)  # bypasses descriptors of these names, which would convert the values again
        return new, fill

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if self.leafy and id(self) not in memo:
            memo[id(self)], fill = self.shell(memo)
            fill({name: child.mirror(leaves, memo) for name, child in zip(self.names, self.children)})
        return memo.get(id(self))


class Extended(Instance):
    """An object of a user's subclass of dict, list or tuple; its items are named `[key]`, its attributes by name."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not issubclass(self.cls, tuple):
            return super().build(leaves, memo)
        if id(self) not in memo:
            memo[id(self)] = self.bunch([child.build(leaves, memo) for child in self.children])
        return memo[id(self)]

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not issubclass(self.cls, tuple) or not self.leafy:
            return super().mirror(leaves, memo)
        return self.bunch([child.mirror(leaves, memo) for child in self.children])

    def bunch(self, parts: list[Any]) -> Any:
        """Return a tuple of the items, with the attributes set."""
        new: Any = tuple_of(self.cls, [part for name, part in zip(self.names, parts) if type(name) is Item])
        if named := {name: part for name, part in zip(self.names, parts) if type(name) is not Item}:
            vars(new).update(named)
        return new

    def kind(self) -> tuple[Any, ...]:
        return self.cls, *settings_of(self.prototype)

    def shell(self, memo: dict[int, Any]) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        base, new = base_of(self.prototype), empty_like(self.prototype, self.cls)
        if dict_of(self.prototype) is self.prototype:
            new.__dict__ = new

        def fill(parts: dict[Any, Any]) -> None:
            for name, part in parts.items():
                if type(name) is not Item:
                    object.__setattr__(new, name, part)
                elif issubclass(base, dict):
                    base.__setitem__(new, name.key, part)
                else:
                    base.append(new, part)
        return new, fill


class Item(NamedTuple):
    """The name of a container's item."""

    key: Any


class Subclassed(Record):
    """An array of a user's subclass: numbers and attributes. Its gradient is a plain array if no attribute has one."""

    __slots__ = ()

    def __init__(self, prototype: Any, names: list[Any]) -> None:
        super().__init__(prototype, names)
        self.cls = getattr(self.cls, "_viewed_as", self.cls)

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            array, *parts = (child.build(leaves, memo) for child in self.children)
            memo[id(self)] = new = (array.view(self.cls) if hasattr(type(array), "_tracer")
                                    else np.asarray(array).view(self.cls))
            new.__dict__.clear()  # clear the attributes that `__array_finalize__` set
            new.__dict__.update(zip(self.names[1:], parts))
        return memo[id(self)]

    @property
    def measure(self) -> Measure | None:
        """The unit of an array of quantities."""
        known = quantities_of(self.cls)
        return None if known is None else Measure(self.cls, known, known.unit(self.prototype))

    @property
    def alone(self) -> bool:
        """True if no attribute holds numbers, so that the gradient is a plain array."""
        return is_masked(self.cls) or not any(child.leafy for child in self.children[1:])

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not self.alone:
            return super().mirror(leaves, memo)
        x, measure = self.children[0].mirror(leaves, memo), self.measure
        return x if measure is None else measure.per(x, memo[GRADIENT]) if GRADIENT in memo else measure.make(x)


NUMBERS = "[...]"  # the name of a subclassed array's numbers among its attributes


def numbers_of(x: Any) -> Any:
    """Return a subclassed array as a plain one that shares its memory."""
    return x._plain() if hasattr(type(x), "_tracer") else np.ndarray.view(x, np.ndarray)


def is_subclassed(x: Any) -> bool:
    """True for a numeric array of a subclass defined by a program or package, and for a traced one."""
    kind = type(x)
    if hasattr(kind, "_viewed_as"):
        return True
    # read past the class's own `dtype`: numpoly's polynomials are records
    return issubclass(kind, np.ndarray) and _is_derived(kind) and _dtype_of(x).kind in "biufc"  # type: ignore[arg-type]


_dtype_of: Callable[[Any], np.dtype[Any]] = vars(np.ndarray)["dtype"].__get__


@functools.cache
def _is_derived(kind: type) -> bool:
    own = [base for base in kind.__mro__ if not issubclass(np.ndarray, base)]
    return bool(own) and (is_masked(kind) or all(base.__module__.partition(".")[0] != "numpy" for base in own))


def is_masked(kind: type) -> bool:
    """True for NumPy's masked array class; does not import numpy.ma."""
    return kind.__name__ == "MaskedArray" and kind.__module__ in ("numpy.ma", "numpy.ma.core")


class Closure(Record):
    """A Python function with captured variables."""

    __slots__ = ("defaults",)

    def __init__(self, prototype: Any, names: list[Any]) -> None:
        super().__init__(prototype, names)
        self.defaults = (code_of(prototype), prototype.__defaults__,
                         prototype.__kwdefaults__ and {**prototype.__kwdefaults__})

    def kind(self) -> tuple[Any, ...]:
        return *self.defaults, space_of(self.prototype)

    def shell(self, memo: dict[int, Any]) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        fn, code = self.prototype, code_of(self.prototype)
        cells = {}
        for name, cell in zip(code.co_freevars, fn.__closure__):
            # functions that share a variable share one cell, so that `nonlocal` works; an empty cell is assigned later,
            # or never
            cells[name] = memo.setdefault(id(cell), CellType()) if name in self.names else cell
        new = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__,
                           tuple(cells[name] for name in code.co_freevars))
        new.__kwdefaults__, new.__qualname__ = fn.__kwdefaults__, fn.__qualname__
        new.__dict__.update(fn.__dict__)

        def fill(parts: dict[str, Any]) -> None:
            for name, part in parts.items():
                cells[name].cell_contents = part
        return new, fill


class Bound(Record):
    """A bound method; its gradient is its object's."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        fn, owner = (child.build(leaves, memo) for child in self.children)
        return memo.setdefault(id(self), MethodType(fn, owner))

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return self.children[1].mirror(leaves, memo)


class Way(Bound):
    """A value that refers to an object (`d.values()`, `log.append`), rebuilt for its copy; it has its gradient."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = rebound_to(self.prototype, self.children[1].build(leaves, memo))
        return memo[id(self)]


class Partial(Record):
    """A functools.partial."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            fn, args, keywords, *attributes = (child.build(leaves, memo) for child in self.children)
            new: Any = functools.partial.__new__(self.cls, fn, *args, **keywords)
            memo[id(self)] = new
            vars(new).update(zip(self.names[3:], attributes))
        return memo[id(self)]


def key_difference(recorded: Any, given: Any) -> str:
    """Describe the static value in which two keys of nestings differ, "" if they differ in structure."""
    if type(recorded) is type(given) and hasattr(recorded, "exact") and recorded != given:
        return f"recorded a {recorded!r}, given a {given!r}"
    if type(recorded) is not tuple or type(given) is not tuple or alike(recorded, given):
        return ""
    kinds = [key[0] if key and type(key[0]) is str else "" for key in (recorded, given)]
    if kinds != ["*", "*"] and {*kinds} <= _SINGLE.keys():
        then, now = (_SINGLE[kind](key[1]) for kind, key in zip(kinds, (recorded, given)))
        return f"recorded {then}, given {now if now != then else 'another one'}"
    return next(filter(None, map(key_difference, recorded, given)), "")


# descriptions of nodes without parts, by the first item of their keys
_SINGLE: dict[str, Callable[[Any], str]] = {
    "*": lambda place: "a number or an array", "static": repr, "content": lambda then: f"the container of {then!r}",
    "function": lambda code: f"the function {code.co_name} of line {code.co_firstlineno} in {code.co_filename}",
}


def class_of_part(node: Any) -> Any:
    """Return the class of the value of a node, for a leaf the class of a variable's cell; None if unknown."""
    if isinstance(node, (Leaf, Static)):
        return CellType if isinstance(node, Leaf) else type(node.value)
    return node.type if isinstance(node, Container) else node.cls if type(node) in (Instance, Closure) else None
