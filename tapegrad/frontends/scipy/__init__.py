"""How SciPy spells the ops. SciPy is not required: a submodule here is imported once the user has imported SciPy's own."""

from __future__ import annotations

import importlib
import sys

_WAITING = ["special", "linalg", "signal", "stats", "integrate", "optimize"]  # those whose functions are not registered yet


def register_imported() -> None:
    """Register the functions of those of SciPy's modules that have been imported by now; called as each trace begins."""
    for name in [name for name in _WAITING if f"scipy.{name}" in sys.modules]:
        _WAITING.remove(name)
        importlib.import_module(f"{__name__}.{name}")
