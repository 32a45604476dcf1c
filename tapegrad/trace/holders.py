"""holders: places where a program stores functions (namespaces, dicts, lists, classes, cells, defaults, partials,
slots), and the replacement of the functions there by stand-ins. Tuples are immutable: their holder gets a new one.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from types import BuiltinFunctionType, CellType, FunctionType, WrapperDescriptorType
from typing import Any

import numpy as np

from tapegrad.numbers.nested import tuple_of
from tapegrad.numbers.object_state import slot_values, slots_of
from tapegrad.numbers.tensors import ORDINARY
from tapegrad.rules.op import PROXIES
from tapegrad.rules.registry import CONSTRUCTORS, GIVEN
from tapegrad.trace.interposition import WRAPPED, GlobalGenerator, numpy_module, original, stand_in
from tapegrad.trace.wrapped_functions import is_compiled, uncompiled
from tapegrad.tree.copies import is_empty

NEVER = (ORDINARY - {tuple}) | {str, bytes, dict, list, type(None)}  # neither functions nor tuples of functions
FEW, DEEP = 256, 4  # size of a dict, list or tuple that is searched; depth of nested tuples


def parts(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the (place, value) pairs of a holder."""
    kind = type(holder)
    if issubclass(kind, dict):
        yield from list(dict.items(holder))
    elif issubclass(kind, (list, deque)):
        yield from enumerate((list if issubclass(kind, list) else deque).__iter__(holder))
    elif kind is CellType:
        yield from () if is_empty(holder) else (("cell_contents", holder.cell_contents),)
    elif kind is FunctionType:
        yield "__defaults__", holder.__defaults__
    elif issubclass(kind, type):
        yield from list(vars(holder).items())
    else:
        if issubclass(kind, functools.partial):
            yield "func", holder.func
            yield "args", holder.args
        yield from slot_values(holder).items()


def put(holder: Any, place: Any, value: Any) -> None:
    """Put a value at a place of a holder."""
    kind = type(holder)
    if issubclass(kind, dict):
        dict.__setitem__(holder, place, value)
    elif issubclass(kind, (list, deque)):
        (list if issubclass(kind, list) else deque).__setitem__(holder, place, value)
    elif issubclass(kind, functools.partial) and place in ("func", "args"):
        func, args = (value, holder.args) if place == "func" else (holder.func, value)
        holder.__setstate__((func, args, holder.keywords, vars(holder)))
    elif kind is CellType or kind is FunctionType:
        setattr(holder, place, value)
    elif issubclass(kind, type):
        type.__setattr__(holder, place, value)
    else:
        slots_of(kind)[place].__set__(holder, value)


def replacement(value: Any, holder: Any = None, depth: int = DEEP) -> Any:
    """Return the stand-in of a value while a trace runs, the value itself if it has none."""
    kind = type(value)
    if kind is FunctionType:  # the common case
        return stand_in(value)
    if kind is staticmethod:
        there = stand_in(value.__func__)
        return value if there is value.__func__ else staticmethod(there)
    if issubclass(kind, tuple):
        if not depth or tuple.__len__(value) > FEW:
            return value
        found = [replacement(part, None, depth - 1) for part in tuple.__iter__(value)]
        return value if all(a is b for a, b in zip(found, tuple.__iter__(value))) else tuple_of(kind, found)
    if value is np:
        return numpy_module()
    if kind is WrapperDescriptorType and isinstance(holder, type):  # the class binds it
        return value
    if is_compiled(kind):
        return uncompiled(value)
    if WRAPPED.get(kind) is GlobalGenerator and type(holder) is not dict:  # draws from it are not recorded
        return value
    there = stand_in(value)
    return (staticmethod(there) if kind is BuiltinFunctionType and issubclass(type(holder), type) and there is not value
            else there)


# by id of a large dict: (its length, number of operations given by users), and its values with their stand-ins
_seen: dict[int, tuple[Any, dict[str, tuple[Any, Any]]]] = {}


def forget(holder: Any) -> None:
    """Discard a module's cached scan, because a name in it was rebound."""
    _seen.pop(id(holder), None)


def replaced(holder: Any) -> dict[Any, tuple[Any, Any]]:
    """Return the values with a stand-in in a holder, as place -> (value, stand-in). A value that another trace has
    already replaced counts as its original. A module is scanned again if it has grown.
    """
    if type(holder) is not dict or ("__builtins__" not in holder and len(holder) <= FEW):
        return {place: (value, there) for place, now in parts(holder)
                if type(now) not in NEVER and type(now) not in PROXIES
                and (there := replacement(value := original(now), holder)) is not value}
    count, known = _seen.get(id(holder), (None, {}))
    if count != (now := (len(holder), len(GIVEN))):
        there = {place: (value := original(x), replacement(value, holder)) for place, x in parts(holder)}
        foreign = str(holder.get("__name__")).startswith("scipy.")
        known = {place: pair for place, pair in there.items() if pair[0] is not pair[1]
                 and not (foreign and _asks(pair[0]))}
        _seen[id(holder)] = now, known
    for place, (value, _) in known.items():
        if holder.get(place) is not value:
            return _anew(holder, known)
    return known


def _anew(holder: dict[Any, Any], known: dict[str, tuple[Any, Any]]) -> dict[Any, tuple[Any, Any]]:
    """Scan the places again at which something was replaced before."""
    pairs = {place: (value := original(holder.get(place)), replacement(value, holder)) for place in known}
    return {place: pair for place, pair in pairs.items() if pair[0] is not pair[1]}


def _asks(fn: Any) -> bool:
    """Return whether a value is numpy, or a NumPy function that dispatches on arguments but not on list items: SciPy
    passes arrays, so its names need no replacement.
    """
    return fn is np or (type(fn) in (type(np.sum), np.ufunc) and fn not in CONSTRUCTORS)
