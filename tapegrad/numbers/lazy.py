"""Lazy: a module that is imported when the first of its names is used."""

from __future__ import annotations

import importlib
from typing import Any


class Lazy:
    """Stand for a module; `import tapegrad` then does not import what only some programs need.

    >>> Lazy("math").sqrt(4.0)
    2.0
    """

    def __init__(self, name: str) -> None:
        self.__dict__["__lazy__"] = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self.__dict__["__lazy__"]), name)
        self.__dict__[name] = found  # the next look-up costs no more than one in a module
        return found


torch: Any = Lazy("torch")
