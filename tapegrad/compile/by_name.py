"""by_name: what a function that is made of another has of that: its name, by which it is pickled where a module has it
under that, and how it is bound where it stands in a class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

from tapegrad.numbers.formatting import name_of

Remade = str | tuple[Callable[..., Any], tuple[()]]


class ByName:
    """A function made of another, with its name: where that was decorated, the module has this one in its place."""

    def named(self, f: Any, again: Callable[..., Any]) -> None:
        """Take the name of `f`; `again` makes this function of it."""
        self.__name__ = name_of(f)
        self.__module__ = getattr(f, "__module__", None) or type(f).__module__
        self.__qualname__ = getattr(f, "__qualname__", self.__name__)
        self.__doc__ = getattr(f, "__doc__", None)
        self._again, self._made_of = again, f

    def __get__(self: Any, instance: Any, owner: Any = None) -> Any:
        f = self._made_of
        bound = f.__get__(instance, owner) if hasattr(type(f), "__get__") else f
        return MethodType(self, bound.__self__) if type(bound) is MethodType and bound is not f else self

    def __reduce__(self) -> Remade:
        found: Any = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            found = getattr(found, name, None)
        return self.__qualname__ if found is self else (self._again, ())
