"""Frontends of libraries that need not be there: each is imported once the user has imported the library."""

from __future__ import annotations

import importlib
import sys

# The library's modules whose functions are not registered yet, and the frontend that does it.
_WAITING = {**{f"scipy.{name}": f"tapegrad.frontends.scipy.{name}" for name in ("special", "linalg", "signal", "stats", "integrate", "optimize")},
            "torch": "tapegrad.frontends.torch"}


def register_imported() -> None:
    """Register the functions of those modules that have been imported by now; called as each trace begins."""
    for name in [name for name in _WAITING if name in sys.modules]:
        if not getattr(sys.modules[name].__spec__, "_initializing", False):  # another thread is at it
            importlib.import_module(_WAITING[name])
            del _WAITING[name]
