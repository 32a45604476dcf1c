"""substitution: replaces values in the objects that hold them."""

from __future__ import annotations

import functools
import gc
from collections import deque
from collections.abc import Callable
from operator import is_
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

from tapegrad.numbers.nested import tuple_of
from tapegrad.numbers.object_state import attributes as own_dict
from tapegrad.numbers.object_state import slot_values, slots_of
from tapegrad.tree.copies import CACHED, base_of, is_empty
from tapegrad.tree.ways import WAYS, owner_of, rebound_to

FIXED = (tuple, frozenset, slice, MethodType, *WAYS)  # immutable types


def filled(x: Any, part: Callable[[Any], Any]) -> Any:
    """Return an object with each value replaced by `part(value)`: the same object, or a new one if it is immutable."""
    kind = type(x)
    if isinstance(x, FIXED):
        new = _anew(x, part)
        if kind not in FIXED:
            _fill_attributes(x, new, part)
        return new
    if kind is CACHED:
        x.cache_clear()
    elif is_array_of_objects(x):
        for place, value in list(np.ndenumerate(x)):
            if (other := part(value)) is not value:
                x[place] = other
    elif isinstance(x, (list, deque)):
        base = base_of(x)
        for i, value in enumerate(list(base.__iter__(x))):
            # another thread may have removed it meanwhile
            if (other := part(value)) is not value and i < base.__len__(x) and base.__getitem__(x, i) is value:
                base.__setitem__(x, i, other)
    elif isinstance(x, set):
        values = [(value, part(value)) for value in set.__iter__(x)]
        if any(value is not other for value, other in values):
            set.clear(x)
            set.update(x, [other for _, other in values])
    elif isinstance(x, dict):
        if (cls := _class_of_table(x)) is not None:
            filled(cls, part)
        else:
            _fill_table(x, part)
    elif kind is CellType:
        if not is_empty(x) and (other := part(x.cell_contents)) is not x.cell_contents:
            x.cell_contents = other
    elif kind is FunctionType:
        for name in ("__defaults__", "__kwdefaults__"):
            if (other := part(value := getattr(x, name))) is not value:
                setattr(x, name, other)
    elif isinstance(x, functools.partial):
        then: Any = (x.func, x.args, x.keywords)
        now = tuple(map(part, then))
        if any(a is not b for a, b in zip(then, now)):
            x.__setstate__((*now, vars(x)))  # type: ignore[attr-defined]
    elif isinstance(x, BaseException):
        if (other := _anew(x.args, part)) is not x.args:
            x.args = other
        _fill_table(vars(x), part)
    elif isinstance(x, type):
        for name, value in list(vars(x).items()):
            if (other := part(value)) is not value:
                type.__setattr__(x, name, other)
    else:
        _fill_attributes(x, x, part)
    if kind not in _PLAIN and isinstance(x, (list, deque, set, dict)):  # attributes of the program's subclass
        _fill_attributes(x, x, part)
    return x


_PLAIN = frozenset([list, deque, set, dict])


def _fill_attributes(x: Any, new: Any, part: Callable[[Any], Any]) -> None:
    """Replace the values in the `__dict__` and the slots of `x`; if `new` is another object, copy them to it replaced.
    """
    own = own_dict(x)
    if own is not None and own is not x:
        if new is not x:
            own_dict(new).update(own)
        _fill_table(own_dict(new), part)
    for name, value in slot_values(x).items():
        if (other := part(value)) is not value or new is not x:
            slots_of(type(x))[name].__set__(new, other)


def _class_of_table(x: dict[Any, Any]) -> Any:
    """Return the class whose attributes a dict holds, None for other dicts. A class must be written to by
    `type.__setattr__`, which clears Python's cache of attributes.
    """
    if type(x) is not dict or not x.keys() >= {"__module__", "__doc__"}:
        return None
    return next((cls for cls in gc.get_referrers(x) if isinstance(cls, type)), None)


def is_array_of_objects(x: Any) -> bool:
    """Return whether an object is an object array, whose contents the garbage collector does not report."""
    return issubclass(type(x), np.ndarray) and x.dtype == object  # reads no attribute of a proxy


def _anew(x: Any, part: Callable[[Any], Any]) -> Any:
    if isinstance(x, MethodType):
        fn, owner = part(x.__func__), part(x.__self__)
        return x if fn is x.__func__ and owner is x.__self__ else MethodType(fn, owner)
    if type(x) in WAYS:
        there = owner_of(x)
        return x if there is None or (owner := part(there)) is there else rebound_to(x, owner)
    if isinstance(x, slice):
        places = x.start, x.stop, x.step
        others = [*map(part, places)]
        return x if all(map(is_, places, others)) else slice(*others)
    values = [*(tuple if isinstance(x, tuple) else frozenset).__iter__(x)]
    others = [*map(part, values)]
    if all(map(is_, values, others)):
        return x
    return frozenset.__new__(type(x), others) if isinstance(x, frozenset) else tuple_of(type(x), others)


def _fill_table(x: dict[Any, Any], part: Callable[[Any], Any]) -> None:
    base = base_of(x)
    items = [(key, part(key), value, part(value)) for key, value in base.items(x)]
    if any(key is not other for key, other, _, _ in items):
        base.clear(x)
        base.update(x, [(key, value) for _, key, _, value in items])
        return
    for key, _, value, other in items:
        if value is not other:
            base.__setitem__(x, key, other)
