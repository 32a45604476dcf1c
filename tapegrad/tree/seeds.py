"""seeds: distributes nested cotangents and seeds to leaves; refuses a different nesting."""

from __future__ import annotations

from collections import deque
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import Absorbing, accumulate
from tapegrad.numbers.formatting import brief
from tapegrad.numbers.lazy import optree
from tapegrad.numbers.quantities import Measure
from tapegrad.tree.copies import beside, dict_of
from tapegrad.tree.modules import Module
from tapegrad.tree.nodes import (
    NAMESPACE,
    Bound,
    Container,
    Extended,
    Instance,
    Item,
    Leaf,
    Subclassed,
    is_subclassed,
    numbers_of,
)
from tapegrad.tree.sparse_tensors import SparseTensor


def is_nothing(cotangent: Any) -> bool:
    """True for a value that stands for a zero cotangent of any nesting."""
    return cotangent is None or isinstance(cotangent, Absorbing)


def unmirror(node: Any, value: Any, parts: list[Any], whole: bool, path: str = "",
             inside: tuple[int, ...] = ()) -> None:
    """Sum cotangents at their leaves, over all occurrences of a part; `inside` has the enclosing parts' ids."""
    if is_nothing(value) or not node.leafy or id(node) in inside:
        return
    inside = (*inside, id(node))
    if isinstance(node, Leaf):
        known = parts[node.index]
        parts[node.index] = value if known is None else accumulate(known, value)
    elif isinstance(node, SparseTensor):
        unmirror(node.children[-1], node.seed(value), parts, whole, path, inside)
    elif isinstance(node, Container):
        for number, (child, field) in enumerate(zip(node.children, _fields(node, value, whole, path))):
            unmirror(child, field, parts, whole, f"{path}[{number}]", inside)
    elif isinstance(node, Subclassed) and (node.alone or not isinstance(value, (dict, node.cls))):
        measure = node.measure
        value = value if measure is None else measure.taken(value)
        unmirror(node.children[0], numbers_of(value) if is_subclassed(value) else value, parts, whole, path, inside)
    elif isinstance(node, Bound):
        unmirror(node.children[1], value, parts, whole, path, inside)
    else:
        named = dict(node.named() if isinstance(node, Module) else zip(node.names, node.children))
        given = _named(node, value, path)
        for name in given:
            if name not in named:
                raise _another(node, value, path, f", which has no {getattr(name, 'key', name)!r}")
        for name, child in named.items():
            unmirror(child, given.get(name), parts, whole, f"{path}.{name}", inside)


def _fields(node: Container, value: Any, whole: bool, path: str) -> list[Any]:
    """Return the parts of a container's cotangent in the container's order; those of a dict by key."""
    n = len(node.children)
    if type(node.metadata) is Measure:
        return [node.metadata.taken(value)]
    if issubclass(node.type, dict):
        at: Any = node.make(node.metadata, tuple(range(n)))  # type: ignore[arg-type]
        keys = sorted(at, key=at.__getitem__)
        if not isinstance(value, dict) or any(key not in at for key in value) or (whole and len(value) != n):
            raise _another(node, value, path)
        return [value.get(key) for key in keys]
    alike: Any = (list, tuple) if issubclass(node.type, (list, tuple)) else node.type
    found: list[Any]
    found, metadata = optree.tree_flatten_one_level(value, none_is_leaf=True,
                                                    namespace=NAMESPACE)[:2] if isinstance(value, alike) else ([], None)
    if len(found) != n:
        raise _another(node, value, path)
    if hasattr(node.metadata, "exact") and metadata != node.metadata:
        raise _another(node, value, path, ", with numbers in other positions")
    return found


def _named(node: Any, value: Any, path: str) -> dict[Any, Any]:
    """Return the cotangents of an object's or function's parts by name, from a dict or an object of its class."""
    if isinstance(node, Extended) and isinstance(value, (dict, list, deque)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {**{Item(key): part for key, part in items}, **beside(value)}
    if isinstance(value, dict):
        return value
    if not isinstance(node, Instance) or not isinstance(value, node.cls):
        raise _another(node, value, path)
    return {**dict_of(value), **{name: getattr(value, name) for name in node.names if hasattr(value, name)}}


def _another(node: Any, value: Any, path: str, why: str = "") -> ArgumentError:
    if isinstance(node, Container):
        of = f" of {list(node.order())!r}" if issubclass(node.type, dict) else f" of {len(node.children)}"
        what = f"a {node.type.__name__}{of}"
    else:
        what = f"a {getattr(type(getattr(node, 'prototype', None)), '__name__', 'nesting')}"
    return ArgumentError(f"{path or 'the value'} is {what}{why}, but {brief(value)} was passed for it",
                         try_="pass the same nesting")
