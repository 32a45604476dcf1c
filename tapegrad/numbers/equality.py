"""equality: whether two constants of a tape are the same, and snapshots of mutable constants."""

from __future__ import annotations

import sys
import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from operator import is_
from types import CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np

from tapegrad.numbers.kinds import Array
from tapegrad.numbers.object_state import attributes, settings_of, slot_values

_CONTAINERS: tuple[type, ...] = (OrderedDict, dict, MappingProxyType, list, tuple, deque, set, frozenset)
_SMALL = 1 << 14  # up to this many bytes, comparing byte strings is faster than NumPy's comparison


def kind_of(x: Any) -> type | None:
    """Return the built-in container type that a value's class is or derives from; None for other values."""
    cls = type(x)
    return cls if cls in _CONTAINERS else next((kind for kind in _CONTAINERS if issubclass(cls, kind)), None)


def parts_of(x: Any) -> list[Any]:
    """Return the items of a container, the keys of a dict, without calling methods of the user's class."""
    if type(x) in _CONTAINERS:
        return list(x)
    kind: Any = kind_of(x)
    return list(kind.__iter__(x))


def values_of(x: Any) -> list[Any]:
    """Return the values of a dict without calling methods of the user's class."""
    kind: Any = kind_of(x)
    return list(kind.values(x))


def alike(a: Any, b: Any) -> bool:
    """True if no program can distinguish two values; 1, 1.0 and True differ, as do 0.0 and -0.0, and dicts by order."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    kind: Any = type(a)
    if kind in _TOLD_APART:
        return bool(a == b)
    if isinstance(a, (tuple, list, set, frozenset, deque)):  # sets are compared in iteration order
        ours, theirs = parts_of(a), parts_of(b)
        return (len(ours) == len(theirs) and (all(map(is_, ours, theirs)) or all(map(alike, ours, theirs)))
                and are_made_alike(a, b))
    if isinstance(a, dict):
        return (alike(parts_of(a), parts_of(b)) and all(map(alike, values_of(a), values_of(b)))
                and are_made_alike(a, b))
    if isinstance(a, np.ndarray):
        return (a.dtype == b.dtype and a.shape == b.shape and not a.dtype.hasobject
                and np.ndarray.tobytes(a) == np.ndarray.tobytes(b) and are_made_alike(a, b))
    if isinstance(a, (int, float, complex, str, bytes, np.generic)):  # without calling methods of the user's class
        base = _base(kind)
        same = base.__eq__(a, b) if base in _TOLD_APART else base.__repr__(a) == base.__repr__(b)
        return bool(same) and are_made_alike(a, b)
    try:
        return bool(a == b) and _alike_once(a, b, state_of)
    except Exception:  # methods of the user's class may raise anything
        return False


# types whose equal values are indistinguishable to a program
_TOLD_APART = frozenset([int, bool, str, bytes, type(None), type(Ellipsis), type, CodeType, FunctionType, MethodType])
_PLAIN_KINDS = frozenset([dict, list, tuple, set, frozenset, np.ndarray, bytearray, array, float, complex,
                          *np.sctypeDict.values()])
_STATES = ("__eq__", "__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")


def state_of(x: Any) -> Any:
    """Return the `__reduce_ex__` value of an object, since equal objects may differ otherwise (times in different time
    zones). None for a class of a package that defines equality or pickling in Python.
    """
    made = [getattr(type(x), name, None) for name in _STATES]
    if any(type(fn) is FunctionType and fn.__module__.partition(".")[0] not in sys.stdlib_module_names for fn in made):
        return None
    try:
        return x.__reduce_ex__(4)
    except Exception:  # the object cannot be copied
        return None


def are_made_alike(a: Any, b: Any) -> bool:
    """Return whether two values have the same class and equal state (attributes, slots) beside their content."""
    return a is b or (type(a) is type(b) and (type(a) in _PLAIN_KINDS or _alike_once(a, b, _state_beside)))


def _alike_once(a: Any, b: Any, facts: Callable[[Any], Any]) -> bool:
    """Return whether `facts` of two objects are alike; a pair already under comparison counts as alike."""
    pair = id(a), id(b)
    if pair in (busy := _comparing.__dict__.setdefault("busy", set[tuple[int, int]]())):
        return True
    busy.add(pair)
    try:
        return alike(facts(a), facts(b))
    finally:
        busy.discard(pair)


_comparing = threading.local()


def _state_beside(x: Any) -> tuple[Any, ...]:
    """Return the state of a container, array or number beside its content."""
    own = attributes(x)
    return None if own is x else own, settings_of(x), slot_values(x)


@lru_cache(maxsize=1024)
def _base(kind: Any) -> Any:
    """Return the Python or NumPy class that a class derives from."""
    return next(base for base in kind.__mro__ if base.__module__ in ("builtins", "collections", "numpy", "array"))


def changes(x: Array) -> bool:
    """True for an object that may have changed by the next call: it is unhashable, or an iterator."""
    return isinstance(x, (Iterator, Mapping)) or (type(x).__hash__ is None and not isinstance(x, slice))


def snapshot(x: Array) -> Any:
    """Return a copy of a mutable object, to compare by `alike`; an object that equals nothing if copying fails."""
    try:
        if isinstance(x, np.ndarray) and x.dtype.hasobject and x.dtype.names is None:
            return x.shape, [snapshot(part) if changes(part) else part for part in x.flat]
        if isinstance(x, Iterator):
            return object()
        if isinstance(x, np.ndarray) and hasattr(x, "__dict__"):
            return np.array(x, subok=False), deepcopy(vars(x))
        if isinstance(x, dict):  # without methods of its class: a sparse dok_matrix's run traced code
            return deepcopy((dict(dict.items(x)), getattr(x, "__dict__", None)))
        # == of a matrix yields no bool
        return deepcopy(vars(x) if hasattr(x, "__dict__") else dict(x) if isinstance(x, Mapping) else x)
    except Exception:  # methods of the user's class may raise anything
        return object()


def unchanged(x: Any, copy: Any) -> bool:
    """Return whether an array equals its copy."""
    if type(x) is type(copy) is np.ndarray and x.nbytes <= _SMALL and x.dtype != object:
        return x.shape == copy.shape and x.dtype == copy.dtype and x.tobytes() == copy.tobytes()
    return np.array_equal(x, copy)


def slim_copy(x: np.ndarray[Any, Any]) -> Any:
    """Return a copy of an array; for a large broadcast array, a broadcast copy of its base."""
    if x.nbytes < 1 << 20 or 0 not in x.strides:
        return x.copy(order="K")
    slim = x[tuple([slice(0, 1) if step == 0 else slice(None) for step in x.strides])]
    return np.broadcast_to(slim.copy(order="K"), x.shape)
