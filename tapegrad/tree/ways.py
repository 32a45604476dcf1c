"""ways: values that refer to another object and can be rebuilt for its copy: C methods, dict views, mapping proxies."""

from __future__ import annotations

import gc
from collections import OrderedDict
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType, MethodWrapperType, ModuleType
from typing import Any

_VIEWS: dict[type, Any] = {type(view(kind())): view for kind in (dict, OrderedDict)
                           for view in (kind.keys, kind.values, kind.items)}
_METHODS = frozenset([BuiltinMethodType, MethodWrapperType])
WAYS = frozenset([*_VIEWS, *_METHODS, MappingProxyType])
_ALONE = (type, ModuleType, str, bytes, type(None))  # methods of these refer to no copied object


def owner_of(x: Any) -> Any:
    """Return the object that such a value refers to; None for other values, and for objects that are never copied.

    >>> d = {"a": 1.0}
    >>> owner_of(d.get) is owner_of(d.values()) is d
    True
    """
    kind = type(x)
    if kind not in WAYS and not (kind is MethodType and type(x.__func__) is not FunctionType):  # Cython methods
        return None
    if kind in _METHODS or kind is MethodType:
        owner = x.__self__
        return None if isinstance(owner, _ALONE) or not hasattr(type(owner), x.__name__) else owner
    owner = next(iter(gc.get_referents(x)), None)
    # the mapping proxy of a class's `__dict__` is not the program's
    return None if kind is MappingProxyType and "__module__" in x and "__doc__" in x else owner


def rebound_to(x: Any, owner: Any) -> Any:
    """Return the value that refers to `owner` as `x` does to its own object."""
    kind = type(x)
    if kind in _METHODS or kind is MethodType:
        return getattr(owner, x.__name__)
    return MappingProxyType(owner) if kind is MappingProxyType else _VIEWS[kind](owner)
