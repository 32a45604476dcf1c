"""import_statements: what an `import` in a traced program is of, and who keeps it."""

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
    """True for an import of what has been imported before, with the arguments of `__import__`."""
    if level:
        package = str((globals or {}).get("__package__") or "").split(".")
        name = ".".join([*package[:len(package) - level + 1], *([name] if name else [])])
    module = sys.modules.get(name)
    known: Any = vars(module) if module is not None else {}
    return module is not None and all(part in known or part == "*" for part in fromlist or ())


def keeps(frame: FrameType) -> bool:
    """True for a function of no library's, which keeps what it imports for itself."""
    code, at = frame.f_code, frame.f_lasti
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and package not in LIBRARIES and package != "tapegrad" and \
        dis.opname[code.co_code[at]] == "IMPORT_NAME" and dis.opname[code.co_code[at + 2]] != "STORE_GLOBAL"
