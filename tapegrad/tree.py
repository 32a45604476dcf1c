"""Nested arguments to leaves and back."""

from __future__ import annotations

import functools
import numbers
import sys
from collections.abc import Callable, Iterator
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import optree

from tapegrad.errors import ArgumentError
from tapegrad.tangent import Absorbing

NAMESPACE = "tapegrad"  # of types that users register with optree for this project alone

_NUMBERS = frozenset([float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_])
_STATIC = frozenset([str, bytes, type(None), type, slice, range, type(Ellipsis), ModuleType])
_FOREIGN_PACKAGES = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "torch", "networkx", "rich", "optree", "tapegrad"}


def is_leaf(x: Any) -> bool:
    """True for what becomes an input of a tape: a number, a numeric array, a tensor, or a proxy of one."""
    if type(x) in _NUMBERS or hasattr(type(x), "_tracer"):
        return True
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind in "biufc"
    return isinstance(x, numbers.Number) or is_generator(x) or is_tensor(x)


def is_generator(x: Any) -> bool:
    """True for NumPy's random generators: an input, so that a replay can be given another."""
    return type(x).__name__ in ("Generator", "RandomState") and type(x).__module__.startswith("numpy.random")


def is_tensor(x: Any) -> bool:
    """True for a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


class Leaf:
    """The place of one leaf."""

    __slots__ = ("index",)
    leafy = True

    def __init__(self, index: int) -> None:
        self.index = index

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return leaves[self.index]

    mirror = build

    def key(self) -> Any:
        return "*"


class Static:
    """An immutable part without leaves: it stays as it is, and has no gradient."""

    __slots__ = ("value",)
    leafy = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return self.value

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return None

    def key(self) -> Any:
        return ("static", self.value)


class Fresh(Static):
    """A mutable part without parts of its own, a set: copied, lest a proxy be left in the caller's."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), self.value.copy())


class Container:
    """A tuple, list, dict, namedtuple or registered type: whatever optree can take apart."""

    __slots__ = ("children", "leafy", "make", "metadata", "type", "volatile")

    def __init__(self, x: Any) -> None:
        self.leafy, self.volatile = False, not isinstance(x, tuple)
        self.type = type(x)
        self.children: list[Any] = []
        parts = optree.tree_flatten_one_level(x, none_is_leaf=True, namespace=NAMESPACE)
        self.metadata, self.make = parts[1], parts[3]

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self.make(self.metadata, tuple(child.build(leaves, memo) for child in self.children))
        return memo[id(self)]

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not self.leafy:
            return None
        return self.make(self.metadata, tuple(child.mirror(leaves, memo) for child in self.children))

    def key(self) -> Any:
        return (self.type, repr(self.metadata), tuple(child.key() for child in self.children))


class Record:
    """An object with named parts: attributes, or what a function captured. It may refer to itself."""

    __slots__ = ("children", "leafy", "names", "prototype")
    volatile = False

    def __init__(self, prototype: Any, names: list[str]) -> None:
        self.prototype, self.names, self.leafy = prototype, names, False
        self.children: list[Any] = []

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            shell, fill = self.shell()
            memo[id(self)] = shell  # before its parts, which may refer to it
            fill({name: child.build(leaves, memo) for name, child in zip(self.names, self.children)})
        return memo[id(self)]

    def shell(self) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        raise NotImplementedError

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not self.leafy:
            return None
        return {name: child.mirror(leaves, memo) for name, child in zip(self.names, self.children) if child.leafy}

    def key(self) -> Any:
        return (type(self), type(self.prototype), tuple(self.names), tuple(child.key() for child in self.children))


class Instance(Record):
    """An object of the user's class; its gradient is an object of the same class."""

    __slots__ = ()
    volatile = True

    def shell(self) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        new = object.__new__(type(self.prototype))

        def fill(parts: dict[str, Any]) -> None:
            for name, part in parts.items():
                object.__setattr__(new, name, part)  # frozen dataclasses too
        return new, fill

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if self.leafy and id(self) not in memo:
            memo[id(self)], fill = self.shell()
            fill({name: child.mirror(leaves, memo) for name, child in zip(self.names, self.children)})
        return memo.get(id(self))


class Closure(Record):
    """A Python function with captured variables."""

    __slots__ = ()

    def shell(self) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        fn = self.prototype
        cells = {name: CellType() for name in self.names}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__):
            cells.setdefault(name, cell)  # an empty cell: the variable is assigned later, or never
        new = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__,
                           tuple(cells[name] for name in fn.__code__.co_freevars))
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
        return MethodType(fn, owner)

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return self.children[1].mirror(leaves, memo)


class Partial(Record):
    """A functools.partial."""

    __slots__ = ()

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        fn, args, keywords = (child.build(leaves, memo) for child in self.children)
        return functools.partial(fn, *args, **keywords)


class Structure:
    """How leaves are nested: rebuilds the nesting around other leaves."""

    __slots__ = ("size", "spec", "start")

    def __init__(self, spec: Any, start: int, size: int) -> None:
        self.spec, self.start, self.size = spec, start, size

    @property
    def is_leaf(self) -> bool:
        return isinstance(self.spec, Leaf)

    def build(self, leaves: list[Any]) -> Any:
        """Put leaves back into the nesting."""
        return self.spec.build(leaves, {})

    def mirror(self, leaves: list[Any]) -> Any:
        """Put gradients into the nesting: None for static parts, a dict by name for what a function captured."""
        return self.spec.mirror(leaves, {})

    def unmirror(self, value: Any) -> list[Any]:
        """Take a cotangent or a seed of this nesting apart: one part per leaf, None where it has none.

        Raises ArgumentError where the nesting differs.
        """
        parts: list[Any] = [None] * (self.start + self.size)
        _unmirror(self.spec, value, parts, "", set())
        return parts[self.start:]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and _same(self.spec.key(), other.spec.key())

    def __hash__(self) -> int:
        return hash((self.start, self.size))

    def __repr__(self) -> str:
        return f"{self.spec.mirror(_Stars(), {})!r}".replace("'*'", "*")


class Signature:
    """How the inputs of a tape are nested in its function, its positional and its keyword arguments."""

    __slots__ = ("args", "fn", "function", "kwargs")

    def __init__(self, fn: Any, function: Structure, args: tuple[Structure, ...], kwargs: dict[str, Structure]) -> None:
        self.fn, self.function, self.args, self.kwargs = fn, function, args, kwargs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.args == other.args and self.kwargs == other.kwargs and self.function == other.function

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        parts = [*map(repr, self.args), *(f"{key}={part!r}" for key, part in self.kwargs.items())]
        return f"({', '.join(parts)})"

    @property
    def parts(self) -> tuple[Structure, ...]:
        """The function and the positional arguments: what a gradient has a place for."""
        return (self.function, *self.args)

    def gradients(self, leaves: list[Any]) -> tuple[Any, ...]:
        """Return (df, *dargs) from one cotangent per input."""
        return tuple(part.mirror(leaves) for part in self.parts)


class ValueAndGradients:
    """The nesting (value, (df, *dargs)) of what a gradient tape returns."""

    __slots__ = ("signature", "size")

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.size = sum(part.size for part in signature.parts)

    def build(self, leaves: list[Any]) -> Any:
        """Nest the value, first, and the cotangents."""
        return leaves[0], self.signature.gradients(leaves[1:])

    def unmirror(self, value: Any) -> list[Any]:
        """Take a cotangent of this nesting apart."""
        parts: list[Any] = [value[0]]
        for part, given in zip(self.signature.parts, value[1]):
            parts += part.unmirror(given)
        return parts

    def __repr__(self) -> str:
        return f"(*, ({', '.join(map(repr, self.signature.parts))}))"


def _unmirror(node: Any, value: Any, parts: list[Any], path: str, seen: set[int]) -> None:
    if isinstance(node, Leaf):
        parts[node.index] = value
        return
    if value is None or isinstance(value, Absorbing) or not node.leafy or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Container):
        fields = _fields(value)
        if fields is None or len(fields) != len(node.children):
            raise ArgumentError(f"{path or 'the value'} is a {node.type.__name__} of {len(node.children)}, "
                                f"and what was given for it is {value!r}", try_="give the same nesting")
        for number, (child, field) in enumerate(zip(node.children, fields)):
            _unmirror(child, field, parts, f"{path}[{number}]", seen)
    elif isinstance(node, Bound):
        _unmirror(node.children[1], value, parts, path, seen)
    else:
        for name, child in zip(node.names, node.children):
            field = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
            _unmirror(child, field, parts, f"{path}.{name}", seen)


def _fields(value: Any) -> list[Any] | None:
    if optree.tree_is_leaf(value, none_is_leaf=True, namespace=NAMESPACE):
        return None
    return optree.tree_flatten_one_level(value, none_is_leaf=True, namespace=NAMESPACE)[0]


class _Stars:
    def __getitem__(self, index: int) -> str:
        return "*"


def _same(a: Any, b: Any) -> bool:
    """Compare keys; static parts by identity first, since an array's == is no truth value."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if a is b:
        return True
    try:
        return bool(a == b)
    except (TypeError, ValueError):
        return False


# Python functions whose calls are recorded whole: they are known by identity, and so are never rebuilt around proxies.
OPAQUE: set[FunctionType] = set()


def flatten(x: Any, label: str, leaves: list[Any], labels: list[str]) -> Structure:
    """Append the leaves of `x` and their labels (`m.W`, `params['b'][0]`), and return how they were nested."""
    start = len(leaves)
    spec = _Walk(leaves, labels).visit(x, label)
    return Structure(spec, start, len(leaves) - start)


def leaves_of(x: Any) -> list[Any]:
    """Return the leaves of a nested structure."""
    leaves: list[Any] = []
    flatten(x, "", leaves, [])
    return leaves


class _Walk:
    """One flattening. A mutable part that occurs twice is one part, as it is in the program; leaves are separate."""

    def __init__(self, leaves: list[Any], labels: list[str]) -> None:
        self.leaves, self.labels = leaves, labels
        self.seen: dict[int, Any] = {}  # id of a part -> its node, also while that is still open
        self.open: list[Any] = []
        self.keep: list[Any] = []  # what was seen must live as long as its id is a key

    def visit(self, x: Any, label: str) -> Any:
        if is_leaf(x):
            self.leaves.append(x)
            self.labels.append(label)
            return Leaf(len(self.leaves) - 1)
        if type(x) in _STATIC:
            return Static(x)
        if id(x) in self.seen:
            return self.seen[id(x)]
        if isinstance(x, (set, bytearray)):
            self.seen[id(x)] = Fresh(x)
            return self.seen[id(x)]
        found = self.take_apart(x, label)
        if found is None:
            return Static(x)
        node, parts = found
        self.seen[id(x)] = node
        self.keep.append(x)
        self.open.append(node)
        for part, part_label in parts:
            child = self.visit(part, part_label)
            node.children.append(child)
            node.leafy = node.leafy or child.leafy
        self.open.pop()
        if not node.leafy and not node.volatile and not self.leads_out(node):
            self.seen[id(x)] = node = Static(x)
        return node

    def leads_out(self, node: Any) -> bool:
        """True if an immutable part refers to one that is mutable, has leaves, or is still open."""
        stack, inside = list(node.children), {id(node)}
        while stack:
            child = stack.pop()
            if id(child) in inside or type(child) is Static:
                continue
            if isinstance(child, (Leaf, Fresh)) or child.volatile or child.leafy or child in self.open:
                return True
            inside.add(id(child))
            stack += child.children
        return False

    def take_apart(self, x: Any, label: str) -> tuple[Any, Iterator[tuple[Any, str]]] | None:
        """Return the node and the labelled parts of `x`, or None if it has none."""
        if isinstance(x, FunctionType):
            if x.__closure__ is None or x in OPAQUE:
                return None
            cells = {name: cell for name, cell in zip(x.__code__.co_freevars, x.__closure__) if not _is_empty(cell)}
            return Closure(x, list(cells)), ((cell.cell_contents, _join(label, name)) for name, cell in cells.items())
        if isinstance(x, MethodType):
            return Bound(x, ["fn", "self"]), iter([(x.__func__, label), (x.__self__, _join(label, "self"))])
        if isinstance(x, functools.partial):
            parts = [(x.func, label), (x.args, _join(label, "args")), (x.keywords, _join(label, "keywords"))]
            return Partial(x, ["func", "args", "keywords"]), iter(parts)
        if optree.tree_is_leaf(x, none_is_leaf=True, namespace=NAMESPACE):
            attributes = _attributes(x)
            if not attributes:
                return None
            return Instance(x, list(attributes)), ((part, _join(label, name)) for name, part in attributes.items())
        node = Container(x)
        children, _, entries = optree.tree_flatten_one_level(x, none_is_leaf=True, namespace=NAMESPACE)[:3]
        if hasattr(x, "_fields"):
            entries = x._fields
            return node, ((part, f"{label}.{name}") for part, name in zip(children, entries))
        return node, ((part, f"{label}[{entry!r}]") for part, entry in zip(children, entries))


def _join(label: str, name: str) -> str:
    return f"{label}.{name}" if label else name


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _attributes(x: Any) -> dict[str, Any]:
    """Return the attributes of an object of a user's class; what other packages define is left alone."""
    cls = type(x)
    if isinstance(x, (type, ModuleType, BaseException)) or cls.__module__.partition(".")[0] in _FOREIGN_PACKAGES:
        return {}
    if any(base.__module__ == "builtins" and base is not object for base in cls.__mro__):
        return {}  # a subclass of int, dict …: its content is not in its attributes
    found = dict(getattr(x, "__dict__", {}))
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(x, slot):
                found[slot] = getattr(x, slot)
    return found
