"""nested: rebuilding tuples, lists and dicts with other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def tuple_of(kind: Any, parts: Iterable[Any]) -> Any:
    """Return a tuple subclass's instance without running its Python code; C classes (`torch.sort`'s) call theirs."""
    parts = [*parts]
    try:
        return tuple.__new__(kind, parts)
    except TypeError:
        return kind(parts)


def inside(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return a tuple, list or dict with `fn` applied to each part; other values unchanged."""
    kind = type(x)
    if kind is tuple or kind is list:
        return kind(map(fn, x))
    if kind is dict:
        return {key: fn(part) for key, part in x.items()}
    return tuple_of(kind, map(fn, x)) if isinstance(x, tuple) else x
