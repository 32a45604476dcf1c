"""nested: tuples, lists and dicts of values, made again with other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def tuple_of(kind: Any, parts: Iterable[Any]) -> Any:
    """Return a tuple of a class, made as Python's own are made: no code of a Python class runs. Classes of C, as that
    of what `torch.sort` returns, have a way of their own.
    """
    parts = [*parts]
    try:
        return tuple.__new__(kind, parts)
    except TypeError:
        return kind(parts)


def inside(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return a tuple, list or dict with each of its parts as `fn` makes it; other values as they are."""
    kind = type(x)
    if kind is tuple or kind is list:
        return kind(map(fn, x))
    if kind is dict:
        return {key: fn(part) for key, part in x.items()}
    return tuple_of(kind, map(fn, x)) if isinstance(x, tuple) else x
