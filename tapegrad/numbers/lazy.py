"""lazy: optional modules, imported on first use of one of their names."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from tapegrad.errors import MissingPackage, user_location

EXTRAS = {"torch": "tapegrad[torch]", "scipy": "tapegrad[scipy]", "llvmlite": "tapegrad[native]"}
"""The pip requirement that provides each optional package."""


def needed(name: str) -> ModuleType:
    """Import and return a module of an optional package.

    Raises MissingPackage with the install command if it is not installed.

    >>> needed("math").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        package = name.partition(".")[0]
        if str(err.name).partition(".")[0] != package:
            raise
        raise MissingPackage(f"this call needs {package}, which is not installed", user_location(),
                             f'pip install "{EXTRAS.get(package, package)}"') from err


class Lazy:
    """A placeholder for a module, so that `import tapegrad` does not import optional packages.

    >>> Lazy("math").sqrt(4.0)
    2.0
    """

    def __init__(self, name: str) -> None:
        self.__dict__["__lazy__"] = name

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # inspect and doctest probe every object in a module for it
            raise AttributeError(name)
        found = getattr(needed(self.__dict__["__lazy__"]), name)
        self.__dict__[name] = found  # cached, so the next look-up is as fast as a module's
        return found


torch: Any = Lazy("torch")
optree: Any = Lazy("optree")
jax: Any = Lazy("jax")
