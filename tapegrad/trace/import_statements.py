"""import_statements: whether an import is of a loaded module, and whether the result stays local to a function."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from tapegrad.trace.constructor_calls import LIBRARIES


def is_loaded(name: str, globals: Mapping[str, Any] | None = None, locals: Any = None,
              fromlist: Sequence[str] | None = (), level: int = 0) -> bool:
    """Return whether a module and the names in `fromlist` are loaded; takes the arguments of `__import__`."""
    if level:
        package = str((globals or {}).get("__package__") or "").split(".")
        name = ".".join([*package[:len(package) - level + 1], *([name] if name else [])])
    module = sys.modules.get(name)
    known: Any = vars(module) if module is not None else {}
    return module is not None and all(part in known or part == "*" for part in fromlist or ())


def keeps(frame: FrameType) -> bool:
    """Return whether a frame is of a function outside the libraries that binds what it imports to a local name."""
    code, at = frame.f_code, frame.f_lasti
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and package not in LIBRARIES and package != "tapegrad" and \
        dis.opname[code.co_code[at]] == "IMPORT_NAME" and dis.opname[code.co_code[at + 2]] != "STORE_GLOBAL"
