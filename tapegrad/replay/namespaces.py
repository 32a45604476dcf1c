"""namespaces: what functions, classes and objects hold that is in no dict of theirs, and what libraries compute by, as namespaces to look at."""

from __future__ import annotations

import abc
import decimal
import logging
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType
from typing import Any

from tapegrad.copies import class_of, code_of
from tapegrad.tree import is_empty


class _Namespace(Mapping[Any, Any]):
    """Attributes of something, by name; those of `named` are there for code that mentions them."""

    __slots__ = ("owner",)
    named: tuple[str, ...] = ()

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __getitem__(self, name: Any) -> Any:
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.named

    def __iter__(self) -> Iterator[Any]:
        return iter(self.named)

    def __len__(self) -> int:
        return len(self.named)


class Held(_Namespace):
    """What a function holds itself; its variables by their numbers."""

    __slots__ = ()
    named = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__name__", "__qualname__", "__annotations__", "__doc__")

    def get(self, name: Any, default: Any = None) -> Any:
        fn: FunctionType = self.owner
        if type(name) is int:
            cell: CellType = fn.__closure__[name]  # type: ignore[index]
            return default if is_empty(cell) else cell.cell_contents
        return code_of(fn) if name == "__code__" else getattr(fn, name, default)


class Typed(_Namespace):
    """What a class holds itself."""

    __slots__ = ()
    named = ("__name__", "__qualname__")

    def get(self, name: Any, default: Any = None) -> Any:
        return getattr(self.owner, name, default)


class Attributes(_Namespace):
    """Attributes of an object that are not in a `__dict__`."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return class_of(self.owner) if name == "__class__" else getattr(self.owner, name, default)


class Contents(_Namespace):
    """What is in a captured variable."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return default if is_empty(self.owner) else self.owner.cell_contents


class _Settings(_Namespace):
    """What libraries compute by."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        if name == "decimal":
            return str(decimal.getcontext())
        if name == "abc":
            return abc.get_cache_token()  # another one whenever a class is registered
        known = logging.root.manager.loggerDict.values()
        return repr([(x.level, x.disabled) for x in (logging.root, *known) if isinstance(x, logging.Logger)] + [logging.root.manager.disable])


SETTINGS = _Settings(None)


def slots_of(cls: type) -> list[str]:
    """Return the names of a class's own slots, as they are kept."""
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    found = [f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name for name in names]
    return [name for name in found if name not in ("__dict__", "__weakref__")]
