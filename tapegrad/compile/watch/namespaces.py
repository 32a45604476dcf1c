"""namespaces: what holds names without being a dict, as one: a function's variables, an object's
attributes, a context variable.
"""

from __future__ import annotations

import abc
import decimal
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tapegrad.tree.attributes import HEAP
from tapegrad.tree.copies import class_of, code_of, dict_of, is_empty

# what every module or class has
OF_ALL = frozenset(["__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__",
                    "__static_attributes__", "__builtins__", "__spec__", "__loader__", "__cached__", "__file__",
                    "__path__", "__name__", "__package__"])


class Namespace(Mapping[Any, Any]):
    """What is asked for by name, and not gone through, but for what code may mention that is
    `named` in all of a kind.
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
    """What a function holds itself: its code, its defaults, and its variables by their numbers."""

    __slots__ = ()
    named = frozenset(["__code__", "__defaults__", "__kwdefaults__", "__closure__", "__name__", "__qualname__",
                       "__annotations__", "__doc__"])

    def get(self, name: Any, default: Any = None) -> Any:
        if type(name) is int:
            cell = self.owner.__closure__[name]
            return default if is_empty(cell) else cell.cell_contents
        return code_of(self.owner) if name == "__code__" else getattr(self.owner, name, default)


class Typed(Namespace):
    """What a class holds itself."""

    __slots__ = ()
    named = frozenset(["__name__", "__qualname__"])

    def get(self, name: Any, default: Any = None) -> Any:
        return getattr(self.owner, name, default)


class Contents(Namespace):
    """What is in a captured variable."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return default if is_empty(self.owner) else self.owner.cell_contents


class Attributes(Namespace):
    """Attributes of an object that are not in a `__dict__`."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return class_of(self.owner) if name == "__class__" else getattr(self.owner, name, default)


class Context(Namespace):
    """What a context variable holds."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return self.owner.get(default)


class Local(Namespace):
    """What the thread that asks has in an object of each thread's own."""

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
    """What the standard library computes by, and the thread that asks."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        if name == "decimal":
            return str(decimal.getcontext())
        if name == "abc":
            return abc.get_cache_token()  # another one whenever a class is registered with one
        if name == "thread":
            return threading.get_ident()
        if callable(name):
            return name()
        loggers = [logging.root,
                   *(x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger))]
        return repr([(x.level, x.disabled) for x in loggers] + [logging.root.manager.disable])


SETTINGS = Settings(None)
NAMED = Held.named | Typed.named


def own_names(x: Any) -> Mapping[str, Any]:
    """Return the attributes that an object or a class has itself, empty for what can be given none."""
    if isinstance(x, type):
        return vars(x) if x.__flags__ & HEAP else {}
    return dict_of(x)
