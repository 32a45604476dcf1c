"""lazy: modules that only some programs need, imported when the first of their names is used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from tapegrad.errors import MissingPackage, user_location

EXTRAS = {"torch": "tapegrad[torch]", "scipy": "tapegrad[scipy]", "llvmlite": "tapegrad[native]"}
"""What to install for a package that only some programs need."""


def needed(name: str) -> ModuleType:
    """Import a module of a package that only some programs need, and return it.

    Raises MissingPackage, which says how to install it, where it is not installed.

    >>> needed("math").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        package = name.partition(".")[0]
        if str(err.name).partition(".")[0] != package:
            raise
        raise MissingPackage(f"{package} is not installed, and what was called needs it", user_location(),
                             f'pip install "{EXTRAS.get(package, package)}"') from err


class Lazy:
    """Stand for a module; `import tapegrad` then does not import what only some programs need.

    >>> Lazy("math").sqrt(4.0)
    2.0
    """

    def __init__(self, name: str) -> None:
        self.__dict__["__lazy__"] = name

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # inspect asks this of everything in a module, as doctest does
            raise AttributeError(name)
        found = getattr(needed(self.__dict__["__lazy__"]), name)
        self.__dict__[name] = found  # the next look-up costs no more than one in a module
        return found


torch: Any = Lazy("torch")
optree: Any = Lazy("optree")
jax: Any = Lazy("jax")
