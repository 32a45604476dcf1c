"""installed: whose a module is, a library's that was installed or the user's own."""

from __future__ import annotations

import functools
import site
import sys
import sysconfig

_FOLDERS = tuple({*map(sysconfig.get_path, ("purelib", "platlib")), *site.getsitepackages(),
                  site.getusersitepackages()})


@functools.lru_cache(maxsize=4096)
def library_of(module: str) -> str:
    """Return the name of the library that a module belongs to, "" for the user's own modules."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module.partition(".")[0] if str(file).startswith(_FOLDERS) else ""
