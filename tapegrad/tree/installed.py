"""installed: whether a module belongs to an installed library or to the user."""

from __future__ import annotations

import functools
import sys
from typing import Any

_FOLDERS = frozenset(["site-packages", "dist-packages"])


@functools.lru_cache(maxsize=4096)
def is_installed(file: str) -> bool:
    """True for a file of an installed package, whose users cannot change it."""
    return not _FOLDERS.isdisjoint(file.replace("\\", "/").split("/"))


def library_of(module: Any) -> str:
    """Return the name of the library that a module belongs to, "" for the user's own modules."""
    package = str(module).partition(".")[0]
    file = file_of(sys.modules.get(str(module))) or file_of(sys.modules.get(package))
    return package if package != "__main__" and is_installed(file) else ""


def file_of(module: Any) -> str:
    """Return the file that a module was loaded from, "" if there is none, without calling its `__getattr__`."""
    return str(getattr(module, "__dict__", {}).get("__file__") or "")
