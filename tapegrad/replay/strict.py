"""strict: whether NumPy's warnings are errors just now, by `np.errstate`, `np.seterr` or a filter of warnings.

Compiled code computes NumPy's numbers as Python's, which overflow without a word.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tapegrad.passes.raising import may_stop
from tapegrad.tape import Call, Operation, Tape, operands

# what np.errstate sets, another object with each setting; NumPy 1, and one to come, may not have it
_settings: Any = getattr(getattr(getattr(np, "_core", None), "umath", None), "_extobj_contextvar", None)

_calm: list[tuple[Any, Any]] = [(object(), None)]  # the settings that were found to raise nothing, and the filters


def strict() -> bool:
    """Return whether a warning of NumPy's would be raised."""
    settings, filters = _calm[0]
    if _settings is not None and _settings.get() is settings and warnings.filters == filters:
        return False
    if "raise" in np.geterr().values() or _are_errors():
        return True
    if _settings is not None:
        _calm[0] = _settings.get(), list(warnings.filters)
    return False


def _are_errors() -> bool:
    """Return whether some filter makes errors of RuntimeWarnings; one that comes before may speak of them all."""
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return True
            if message is None and module is None and line == 0:
                return False
    return False


def may_lose(tape: Tape) -> bool:
    """Return whether a tape has calls whose values nobody needs, and which NumPy might warn of: a compiled tape makes none of these."""
    needed = {tape.result} | {op for op in tape.ops if may_stop(op)}
    for op in reversed(tape.ops):
        if op in needed:
            needed.update(operands(op))
    return any(type(op) is Call and op not in needed and _is_inexact(op) for op in tape.ops)


def _is_inexact(op: Operation) -> bool:
    return getattr(getattr(op.val, "dtype", None), "kind", "") in ("f", "c")
