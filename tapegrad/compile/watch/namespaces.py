"""namespaces: mapping views of things that hold names without a dict: a function's cells and defaults, an object's
slots, a context variable, library settings.
"""

from __future__ import annotations

import abc
import decimal
import logging
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import CellType
from typing import Any

from tapegrad.numbers.object_state import attributes
from tapegrad.tree.attributes import HEAP
from tapegrad.tree.copies import class_of, code_of, dict_of, is_empty

# names that every module or class has
OF_ALL = frozenset(["__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__",
                    "__static_attributes__", "__builtins__", "__spec__", "__loader__", "__cached__", "__file__",
                    "__path__", "__name__", "__package__"])


class Namespace(Mapping[Any, Any]):
    """A mapping with lookup by name but without iteration. `named` lists the names that every owner of the kind has
    and that code may mention.
    """

    __slots__ = ("owner",)
    named: frozenset[str] = frozenset()

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def get(self, name: Any, default: Any = None) -> Any:
        raise NotImplementedError

    def __getitem__(self, name: Any) -> Any:
        return self.get(name)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Held(Namespace):
    """A function's attributes (code, defaults), and its captured variables by index."""

    __slots__ = ()
    named = frozenset(["__code__", "__defaults__", "__kwdefaults__", "__closure__", "__name__", "__qualname__",
                       "__annotations__", "__doc__"])

    def get(self, name: Any, default: Any = None) -> Any:
        if type(name) is int:
            cell = self.owner.__closure__[name]
            return default if is_empty(cell) else cell.cell_contents
        return code_of(self.owner) if name == "__code__" else getattr(self.owner, name, default)


class Typed(Namespace):
    """A class's names."""

    __slots__ = ()
    named = frozenset(["__name__", "__qualname__"])

    def get(self, name: Any, default: Any = None) -> Any:
        return getattr(self.owner, name, default)


class Contents(Namespace):
    """The content of a cell."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return default if is_empty(self.owner) else self.owner.cell_contents


class Attributes(Namespace):
    """Attributes of an object that are not in a `__dict__`, and its `__dict__`, which the program may replace."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        if name == "__dict__":
            return attributes(self.owner)
        return class_of(self.owner) if name == "__class__" else getattr(self.owner, name, default)


class Context(Namespace):
    """The current value of a context variable."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return self.owner.get(default)


class Weak(Namespace):
    """A weak reference, absent once its object is gone: a strong one would keep that alive."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return default if self.owner() is None else self.owner


class Entries(Namespace):
    """The weak references in a table of them whose objects are there, by their keys."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        found = self.owner.data.get(name)
        return default if found is None or found() is None else found


class Local(Namespace):
    """The current thread's attributes of a `threading.local`."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return vars(self.owner).get(name, default)

    def __contains__(self, name: Any) -> bool:
        return name in vars(self.owner)

    def __iter__(self) -> Iterator[Any]:
        return iter(vars(self.owner))

    def __len__(self) -> int:
        return len(vars(self.owner))


class Settings(Namespace):
    """Settings of the standard library, the current thread, and functions called for their value."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        if name == "decimal":
            return str(decimal.getcontext())
        if name == "abc":
            return abc.get_cache_token()  # changes whenever a class is registered with an abstract one
        if name == "thread":
            return threading.get_ident()
        if callable(name):
            return name()
        loggers = [logging.root,
                   *(x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger))]
        return repr([(x.level, x.disabled) for x in loggers] + [logging.root.manager.disable])


def holder(x: Any) -> Namespace | None:
    """Return the namespace of the content of a context variable, a cell or a weak reference, None for other objects."""
    kind = _HOLDERS.get(type(x))
    return None if kind is None else kind(x)


_HOLDERS: dict[type, type[Namespace]] = {ContextVar: Context, CellType: Contents, weakref.ref: Weak,
                                         weakref.KeyedRef: Weak}
SETTINGS = Settings(None)
NAMED = Held.named | Typed.named


def own_names(x: Any) -> Mapping[str, Any]:
    """Return the own attributes of an object or class, empty if it cannot be assigned any."""
    if isinstance(x, type):
        return vars(x) if x.__flags__ & HEAP else {}
    return dict_of(x)
