"""installed: whose a module is, a library's that was installed or the user's own."""

from __future__ import annotations

import functools
import site
import sys
from typing import Any

_FOLDERS = (*site.getsitepackages(), site.getusersitepackages())


@functools.lru_cache(maxsize=4096)
def library_of(module: str) -> str:
    """Return the name of the library that a module belongs to, "" for the user's own modules."""
    return module.partition(".")[0] if file_of(sys.modules.get(module)).startswith(_FOLDERS) else ""


def file_of(module: Any) -> str:
    """Return the file that a module was loaded from, "" where there is none. Its `__getattr__` is not asked."""
    return str(getattr(module, "__dict__", {}).get("__file__") or "")
