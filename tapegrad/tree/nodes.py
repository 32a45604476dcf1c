"""The parts of nested arguments: each builds itself around other leaves."""

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
from tapegrad.numbers.quantities import Measure, known_as, measure_of
from tapegrad.tree.copies import base_of, beside, class_of, code_of, dict_of, empty_like, space_of
from tapegrad.tree.ways import way_to

GRADIENT = -1  # under which the memo of a mirror has the unit of what it is the gradient of
NAMESPACE = "tapegrad"  # of types that users register with optree for this project alone
_OPEN = object()  # stands for the mirror of a part that is being made


class Leaf:
    """The place of one leaf."""

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
    """An immutable part without leaves: it stays as it is, and has no gradient."""

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
    """A Python function that captured nothing: any other of the same code and defaults stands for it."""

    __slots__ = ()

    def key(self, seen: dict[int, int]) -> Any:
        fn = self.value
        return ("function", code_of(fn), space_of(fn), fn.__defaults__, fn.__kwdefaults__, fn.__dict__)


class Content(Static):
    """A mutable part that is passed on as it is, such as an array of strings: it holds for a tape while
    its content is what it was.
    """

    __slots__ = ("then",)

    def __init__(self, value: Any) -> None:
        self.value, self.then = value, snapshot(value)

    def key(self, seen: dict[int, int]) -> Any:
        return ("content", self.then)


class Made(Content):
    """An array without numbers that a program returns, of texts for example: each call returns a copy of its own."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), copy(self.value))


class Fresh(Static):
    """A mutable part without parts of its own, a set: copied, lest a proxy be left in the caller's, and
    lest the caller change it.
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
    """A container taken apart, as optree does it: its parts, what else it is made of, the names of the parts,
    and what puts it together.
    """

    children: Sequence[Any]
    metadata: Any
    entries: Iterable[Any]
    make: Callable[[Any, Any], Any]


_PLAIN: dict[type, Callable[[Any, Any], Any]] = {tuple: lambda metadata, parts: tuple(parts),
                                                 list: lambda metadata, parts: list(parts)}


def is_container(x: Any) -> bool:
    """True for what optree can take apart."""
    kind: Any = type(x)
    if kind in _PLAIN or known_as(kind) is not None:
        return True
    return not optree.tree_is_leaf(x, none_is_leaf=True, namespace=NAMESPACE)


def level(x: Any) -> Level:
    """Take a container apart; tuples and lists in a tenth of the time that it takes to look for their type."""
    make = _PLAIN.get(type(x))
    if make is not None:
        return Level(x, None, range(len(x)), make)
    if type(x) is slice:
        return Level((x.start, x.stop, x.step), None, ("start", "stop", "step"), lambda metadata, parts: slice(*parts))
    measure = measure_of(x)
    if measure is not None:
        return Level((measure.known.number(x),), measure, ("magnitude",), lambda measure, parts: measure.make(*parts))
    children, metadata, entries, make = optree.tree_flatten_one_level(x, none_is_leaf=True, namespace=NAMESPACE)[:4]
    return Level(children, metadata, entries, tuple_of if isinstance(x, tuple) and metadata is type(x) else make)


class Container:
    """A tuple, list, dict, namedtuple or registered type: whatever optree can take apart."""

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
            raise ArgumentError(f"a {self.type.__name__} that holds itself cannot be taken apart", None,
                                "an object of a class in its place, which may lead back to itself")
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
        """Return the keys of a dict in its own order, which `children` has not; of another container, nothing."""
        if not issubclass(self.type, dict):
            return []
        return list(self.make(self.metadata, tuple(self.children)))  # type: ignore[call-overload]


def is_hollow(part: Any, inside: tuple[int, ...] = ()) -> bool:
    """True for an empty container, and one of such alone: its gradient is like it."""
    if isinstance(part, Container):
        return id(part) not in inside and all(is_hollow(child, (*inside, id(part))) for child in part.children)
    return isinstance(part, Static) and isinstance(part.value, tuple) and all(is_hollow(Static(child))
                                                                              for child in part.value)


def _first(node: Any, seen: dict[int, int]) -> Any:
    """Number a part of a key where it occurs first; return what stands for it where it occurs again."""
    if id(node) in seen:
        return ("again", seen[id(node)])
    seen[id(node)] = len(seen)
    return None


class Record:
    """An object with named parts: attributes, or what a function captured. It may refer to itself."""

    __slots__ = ("children", "cls", "leafy", "names", "prototype")
    volatile = False

    def __init__(self, prototype: Any, names: list[Any]) -> None:
        self.prototype, self.names, self.leafy = prototype, names, False
        self.cls = class_of(prototype)  # which a program may exchange
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
        """Return the gradients by name; a reference back to this part, or to one around it, has none of its own."""
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
        """Return what must agree, apart from the parts."""
        return (self.cls,)


class Instance(Record):
    """An object of the user's class; its gradient is an object of the same class."""

    __slots__ = ()
    volatile = True

    def shell(self, memo: dict[int, Any]) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        cls = self.cls
        new: Any = (SimpleNamespace if issubclass(cls, SimpleNamespace) else object).__new__(cls)

        def fill(parts: dict[str, Any]) -> None:
            held = getattr(self.prototype, "__dict__", {})
            for name, part in parts.items():
                if type(held) is dict and name in held:
                    new.__dict__[name] = part  # past a descriptor of that name, which would convert it again
                else:
                    object.__setattr__(new, name, part)  # frozen dataclasses too
        return new, fill

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if self.leafy and id(self) not in memo:
            memo[id(self)], fill = self.shell(memo)
            fill({name: child.mirror(leaves, memo) for name, child in zip(self.names, self.children)})
        return memo.get(id(self))


class Extended(Instance):
    """An object of the user's kind of dict, list or tuple: named are its items, as `[key]`, and its attributes."""

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
        """Return a tuple of its parts, which has attributes besides."""
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
    """The name of an item of a container."""

    key: Any


class Subclassed(Record):
    """An array of a class of the program's: its numbers, and its attributes. Where these hold none, its gradient is a
    plain array.
    """

    __slots__ = ()

    def __init__(self, prototype: Any, names: list[Any]) -> None:
        super().__init__(prototype, names)
        self.cls = getattr(self.cls, "_viewed_as", self.cls)

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            array, *parts = (child.build(leaves, memo) for child in self.children)
            memo[id(self)] = new = (array.view(self.cls) if hasattr(type(array), "_tracer")
                                    else np.asarray(array).view(self.cls))
            new.__dict__.clear()  # of what `__array_finalize__` has set
            new.__dict__.update(zip(self.names[1:], parts))
        return memo[id(self)]

    @property
    def measure(self) -> Measure | None:
        """The unit of an array of quantities."""
        known = known_as(self.cls)
        return None if known is None else Measure(self.cls, known, known.unit(self.prototype))

    @property
    def alone(self) -> bool:
        """True if no attribute holds numbers: a gradient is a plain array."""
        return is_masked(self.cls) or not any(child.leafy for child in self.children[1:])

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not self.alone:
            return super().mirror(leaves, memo)
        x, measure = self.children[0].mirror(leaves, memo), self.measure
        return x if measure is None else measure.per(x, memo[GRADIENT]) if GRADIENT in memo else measure.make(x)


NUMBERS = "[...]"  # the name of an array's numbers among its attributes


def numbers_of(x: Any) -> Any:
    """Return an array of a class as the plain one of the same memory."""
    return x._plain() if hasattr(type(x), "_tracer") else np.ndarray.view(x, np.ndarray)


def is_subclassed(x: Any) -> bool:
    """True for a numeric array of a class that the program or a package has derived from NumPy's, and for a traced
    one.
    """
    kind = type(x)
    if hasattr(kind, "_viewed_as"):
        return True
    # what a class says of its dtype may be another: numpoly's polynomials are records
    return issubclass(kind, np.ndarray) and _is_derived(kind) and _dtype_of(x).kind in "biufc"  # type: ignore[arg-type]


_dtype_of: Callable[[Any], np.dtype[Any]] = vars(np.ndarray)["dtype"].__get__


@functools.cache
def _is_derived(kind: type) -> bool:
    own = [base for base in kind.__mro__ if not issubclass(np.ndarray, base)]
    return bool(own) and (is_masked(kind) or all(base.__module__.partition(".")[0] != "numpy" for base in own))


def is_masked(kind: type) -> bool:
    """True for the class of NumPy's masked arrays, which need not have been imported."""
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
            # one cell for all functions that share the variable, so that `nonlocal` means what it means
            # an empty one is assigned later, or never
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
    """A bound method; its gradient is that of the object it is bound to."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        fn, owner = (child.build(leaves, memo) for child in self.children)
        return memo.setdefault(id(self), MethodType(fn, owner))

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return self.children[1].mirror(leaves, memo)


class Way(Bound):
    """What leads to another thing, made anew for the copy of that: `d.values()`, `log.append`. Its gradient is that of
    what it leads to.
    """

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = way_to(self.prototype, self.children[1].build(leaves, memo))
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
    """Say which value without a gradient is another, "" where the keys of two nestings differ otherwise."""
    if type(recorded) is type(given) and hasattr(recorded, "exact") and recorded != given:
        return f"recorded a {recorded!r}, given a {given!r}"
    if type(recorded) is not tuple or type(given) is not tuple or alike(recorded, given):
        return ""
    kinds = [key[0] if key and type(key[0]) is str else "" for key in (recorded, given)]
    if kinds != ["*", "*"] and {*kinds} <= _SINGLE.keys():
        then, now = (_SINGLE[kind](key[1]) for kind, key in zip(kinds, (recorded, given)))
        return f"recorded {then}, given {now if now != then else 'another one'}"
    return next(filter(None, map(key_difference, recorded, given)), "")


# how parts without parts are called, by what their keys begin with
_SINGLE: dict[str, Callable[[Any], str]] = {
    "*": lambda place: "a number or an array", "static": repr, "content": lambda then: f"what held {then!r}",
    "function": lambda code: f"the function {code.co_name} of line {code.co_firstlineno} in {code.co_filename}",
}


def class_of_part(node: Any) -> Any:
    """Return the class of what a part stands for, of a leaf that of the variable with it; None if it is not known."""
    if isinstance(node, (Leaf, Static)):
        return CellType if isinstance(node, Leaf) else type(node.value)
    return node.type if isinstance(node, Container) else node.cls if type(node) in (Instance, Closure) else None
