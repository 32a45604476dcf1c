"""unmirror: a cotangent or a seed, nested as gradients are, to one cotangent for each leaf."""

from __future__ import annotations

from typing import Any

import optree

from tapegrad.errors import ArgumentError
from tapegrad.modules import Module
from tapegrad.parts import NAMESPACE, Bound, Container, Extended, Item, Leaf
from tapegrad.tangent import Absorbing, accumulate


def is_nothing(cotangent: Any) -> bool:
    """True for a cotangent that may stand for any nesting in which nothing flows."""
    return cotangent is None or isinstance(cotangent, Absorbing)


def unmirror(node: Any, value: Any, parts: list[Any], path: str, inside: tuple[int, ...]) -> None:
    """Put cotangents at their leaves; those of a part that occurs more than once add up. `inside` are the parts around this one."""
    if is_nothing(value) or not node.leafy or id(node) in inside:
        return
    inside = (*inside, id(node))
    if isinstance(node, Leaf):
        known = parts[node.index]
        parts[node.index] = value if known is None else accumulate(known, value)
    elif isinstance(node, Container):
        fields = _fields(value)
        if fields is None or len(fields) != len(node.children):
            raise ArgumentError(f"{path or 'the value'} is a {node.type.__name__} of {len(node.children)}, "
                                f"and what was given for it is {value!r}", try_="give the same nesting")
        for number, (child, field) in enumerate(zip(node.children, fields)):
            unmirror(child, field, parts, f"{path}[{number}]", inside)
    elif isinstance(node, Bound):
        unmirror(node.children[1], value, parts, path, inside)
    elif isinstance(node, Module):
        for name, child in node.named():
            unmirror(child, value.get(name), parts, f"{path}[{name!r}]", inside)
    else:
        for name, child in zip(node.names, node.children):
            if type(name) is Item:
                field = value[name.key] if isinstance(value, list) or name.key in value else None
            else:
                field = value.get(name) if isinstance(value, dict) and not isinstance(node, Extended) else getattr(value, name, None)
            unmirror(child, field, parts, f"{path}.{name}", inside)


def _fields(value: Any) -> list[Any] | None:
    if optree.tree_is_leaf(value, none_is_leaf=True, namespace=NAMESPACE):
        return None
    return optree.tree_flatten_one_level(value, none_is_leaf=True, namespace=NAMESPACE)[0]
