"""Structures of nested values, made from the parts that a file describes."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, TapeFormatError
from tapegrad.store.format import MAX_DEPTH, MAX_PARTS, spread
from tapegrad.tree.flatten import Structure, fixed
from tapegrad.tree.nodes import (
    NUMBERS,
    Bound,
    Closure,
    Container,
    Extended,
    Fresh,
    Instance,
    Item,
    Leaf,
    Partial,
    Record,
    Subclassed,
)


class Captured(Record):
    """The captured values of a function, without the function: its gradient is a dict by name, like a closure's."""

    __slots__ = ()

    def kind(self) -> tuple[Any, ...]:
        return ()

    def shell(self, memo: dict[int, Any]) -> tuple[Any, Callable[[dict[str, Any]], None]]:
        raise ArgumentError("the code of a function is not in the file that its tape was loaded from",
                            try_="tape.play(...)")


_RECORDS = ("instance", "extended", "array", "closure", "captured")  # kinds that may contain themselves


class Nest:
    """The parts of all structures of a file, and the structures made from them."""

    def __init__(self, reader: Any, nodes: list[Any], structures: list[Any]) -> None:
        self.reader, self.rows, self.structures = reader, nodes, structures
        self.made: dict[tuple[int, int], Structure] = {}
        self.parts = [row[2] if len(row) > 2 else () for row in nodes]
        depth, size = [1] * len(nodes), [1] * len(nodes)
        for number, parts in enumerate(self.parts):
            for part in parts:
                if type(part) is not int or not 0 <= part < len(nodes):
                    raise TapeFormatError("a part of an argument that is not in the file")
                if part >= number and nodes[part][0] not in _RECORDS:
                    raise TapeFormatError("a part of an argument that contains itself")
                if part < number:
                    depth[number] = max(depth[number], depth[part] + 1)
                    size[number] = min(size[number] + size[part], MAX_PARTS + 1)
        if max(depth, default=0) > MAX_DEPTH or max(size, default=0) > MAX_PARTS:
            raise TapeFormatError(f"an argument is nested more than {MAX_DEPTH} deep, or has more than {MAX_PARTS} "
                                  "parts")

    def structure(self, number: Any, start: int) -> Structure:
        """Return a structure whose leaves are counted from `start`."""
        if type(number) is not int or not 0 <= number < len(self.structures):
            raise TapeFormatError("a structure that is not in the file")
        if (number, start) not in self.made:
            root, size = self.structures[number]
            if type(root) is not int or not 0 <= root < len(self.rows) or type(size) is not int:
                raise TapeFormatError("a structure without a root")
            order = self.below(root)
            leaves = sorted(self.rows[i][1] for i in order if self.rows[i][0] == "leaf")
            if leaves != list(range(size)) or any(type(leaf) is not int for leaf in leaves):
                raise TapeFormatError("a structure whose number of leaves differs from the stated one")
            nodes = {i: self.node(self.rows[i], start) for i in order}
            for i, node in nodes.items():
                self.connect(node, [nodes[part] for part in self.parts[i]], self.rows[i])
            self.made[number, start] = Structure(nodes[root], start, size, {})
        return self.made[number, start]

    def below(self, root: int) -> list[int]:
        """Return the numbers of a part and of all parts below it."""
        seen, stack = {root}, [root]
        while stack:
            new = [part for part in self.parts[stack.pop()] if part not in seen]
            seen.update(new)
            stack += new
        return sorted(seen)

    def node(self, row: Any, start: int) -> Any:
        """Return a part without its children."""
        reader, (kind, leafy, *more) = self.reader, row
        if kind == "leaf":
            return Leaf(start + leafy)
        if kind in ("static", "fresh"):
            value = reader.value(leafy)
            if kind == "fresh" and not isinstance(value, (set, bytearray)):
                raise TapeFormatError("an invalid set")
            return fixed(value) if kind == "static" else Fresh(value)
        if type(leafy) is not bool:
            raise TapeFormatError("a part that does not state whether it has leaves")
        count = len(more[0])
        if kind in _EXAMPLES:
            return Container(_EXAMPLES[kind](reader, count, *more[1:]))
        if kind in ("bound", "partial"):
            if count != (2 if kind == "bound" else 3):
                raise TapeFormatError(f"a {kind} function of {count} parts")
            return (Bound(MethodType(int, 0), ["fn", "self"]) if kind == "bound"
                    else Partial(functools.partial(int), ["func", "args", "keywords"]))
        return self.record(kind, count, *more[1:])

    def record(self, kind: Any, count: int, names: Any, made_by: Any) -> Record:
        """Return an object, or a function with captured values, without its children."""
        reader = self.reader
        found: list[Any] = [name if type(name) is str else Item(reader.value(name[1])) for name in names]
        if len(found) != count or len(set(spread(found))) != count:
            raise TapeFormatError("an object with different numbers of parts and names")
        if kind == "captured":
            cls: Any = None if made_by is None else reader.among_given(made_by)
            if not isinstance(cls, type) or issubclass(cls, (dict, list)):
                return Captured(None, found)
            if issubclass(cls, np.ndarray) and found[:1] == [NUMBERS]:
                return Subclassed(np.empty(0).view(cls), found)
            return Instance(object.__new__(cls), found)
        if kind == "closure":
            fn = reader.value(made_by)
            if (not isinstance(fn, FunctionType) or fn.__closure__ is None
                or not set(found) <= set(fn.__code__.co_freevars)):
                raise TapeFormatError(f"{fn!r} does not capture {', '.join(map(str, found))}")
            return Closure(fn, found)
        cls = reader.cls(made_by)
        if kind == "array" and issubclass(cls, np.ndarray) and found[:1] == [NUMBERS]:
            return Subclassed(np.empty(0).view(cls), found)
        if kind == "instance":
            return Instance(SimpleNamespace() if cls is SimpleNamespace else object.__new__(cls), found)
        if kind != "extended" or not issubclass(cls, (dict, list, tuple)):
            raise TapeFormatError(f"a part of the unknown kind {kind!r}")
        return Extended(next(base for base in (dict, list, tuple) if issubclass(cls, base)).__new__(cls), found)

    def connect(self, node: Any, parts: list[Any], row: Any) -> None:
        """Give a part its children; a dict has an order of its own."""
        if isinstance(node, Container) and row[0] in ("dict", "OrderedDict", "defaultdict"):
            example: Any = node.make(node.metadata, tuple(range(len(parts))))  # type: ignore[arg-type]
            order = list(example.values())
            placed: list[Any] = [None] * len(parts)
            for part, place in zip(parts, order):
                placed[place] = part
            parts = placed
        if isinstance(node, (Container, Record)):
            node.children, node.leafy = parts, row[1]


def _named(reader: Any, count: int, cls: type) -> Any:
    found = reader.cls(cls)
    if not issubclass(found, tuple) or len(found._fields) != count:
        raise TapeFormatError(f"{found.__name__} is not a named tuple of {count}")
    return tuple.__new__(found, range(count))


def _keys(reader: Any, count: int, keys: Any) -> dict[Any, int]:
    found = {key: i for i, key in enumerate(spread(map(reader.value, keys)))}
    if len(found) != count or len(keys) != count:
        raise TapeFormatError("a dict with different numbers of keys and values")
    return found


def _factory(reader: Any, row: Any) -> Any:
    return None if row is None else reader.value(row)


# By kind of container, a value with a given number of parts, for optree to flatten.
_EXAMPLES: dict[str, Callable[..., Any]] = {
    "tuple": lambda r, n: (0,) * n, "list": lambda r, n: [0] * n,
    "deque": lambda r, n, most: deque([0] * n, r.value(most)),
    "dict": lambda r, n, keys, _: _keys(r, n, keys),
    "OrderedDict": lambda r, n, keys, _: OrderedDict(_keys(r, n, keys)),
    "defaultdict": lambda r, n, keys, factory: defaultdict(_factory(r, factory), _keys(r, n, keys)),
    "named": _named,
}
