"""object_state: the state of an object beside the content of its base type: `__dict__`, slots, the settings of a
defaultdict or a deque. Reading it calls no method of the object's class.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from functools import lru_cache
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any


def attributes(x: Any) -> Any:
    """Return the `__dict__` of an object, or None."""
    for base in type(x).__mro__:
        found: Any = vars(base).get("__dict__")
        if type(found) in (GetSetDescriptorType, MemberDescriptorType):
            return found.__get__(x)
    return None


def slots_of(kind: Any) -> dict[str, Any]:
    """Return the slots that a class and its bases declare, by name, without members of C types (`partial.func`)."""
    return _slots_of(kind)


@lru_cache(maxsize=1024)
def _slots_of(kind: Any) -> dict[str, Any]:
    return {name: part for base in reversed(kind.__mro__) if "__slots__" in vars(base)
            for name, part in vars(base).items() if type(part) is MemberDescriptorType}


def slot_values(x: Any) -> dict[str, Any]:
    """Return the values of the slots that are set, by name."""
    found = {}
    for name, slot in slots_of(type(x)).items():
        try:
            found[name] = slot.__get__(x)
        except AttributeError:
            continue
    return found


def settings_of(x: Any) -> tuple[Any, ...]:
    """Return the constructor settings of a defaultdict or a deque beside its items."""
    return (_FACTORY.__get__(x),) if isinstance(x, defaultdict) else (_LENGTH.__get__(x),) if isinstance(x, deque) \
        else ()


_FACTORY: Any = vars(defaultdict)["default_factory"]
_LENGTH: Any = vars(deque)["maxlen"]


class _Object:
    pass


_object = _Object()
_table = attributes(_object)
ALONE = sys.getrefcount(_table)  # the reference count of a `__dict__` that only its object and one variable refer to
