"""namespaces: what holds names without being a dict, as one: a function's variables, an object's attributes, a context variable."""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping
from typing import Any

from tapegrad.copies import class_of, code_of
from tapegrad.tree import is_empty


class Namespace(Mapping[Any, Any]):
    """What is asked for by name, and not gone through."""

    __slots__ = ("owner",)

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

    def get(self, name: Any, default: Any = None) -> Any:
        if type(name) is int:
            cell = self.owner.__closure__[name]
            return default if is_empty(cell) else cell.cell_contents
        return code_of(self.owner) if name == "__code__" else getattr(self.owner, name)


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


class Settings(Namespace):
    """What the standard library computes decimal numbers by."""

    __slots__ = ()

    def get(self, name: Any, default: Any = None) -> Any:
        return str(decimal.getcontext())


SETTINGS = Settings(decimal)
