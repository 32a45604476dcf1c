"""Warning filters in a traced function. If the program turns NumPy's warnings into errors or records them, each call is
guarded, so that a replay notices where it would warn differently.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tapegrad.rules.registry import constructs
from tapegrad.trace.numpy_warnings import KINDS, action, told
from tapegrad.trace.observers import unrepeatable
from tapegrad.tree.copies import Filtering, running


def _levels() -> list[Filtering]:
    """Return the warning contexts that the traced programs have open."""
    return [level for level in running.filtering if level.tracer in running.open]


def settings() -> dict[str, str]:
    """Return NumPy's floating-point error modes; with "warnings": "raise" if the program can observe the warnings."""
    modes = told(np.geterr())
    return {**modes, "warnings": "raise"} if _are_seen() else modes


def silenced() -> frozenset[str]:
    """Return the kinds of floating-point warnings that nobody sees: `np.errstate` or the program's filters ignore them
    or turn them into errors, which guards report.
    """
    own = _levels()
    if any(level.records for level in own) or (any(level.filters for level in own) and action() == "ignore"):
        return frozenset(KINDS.values())
    modes = np.geterr()  # by default NumPy ignores underflow
    return frozenset([kind for kind, how in modes.items() if how in ("ignore", "raise") and kind != "under"])


def _are_seen() -> bool:
    """Return whether the program can tell that NumPy warned: its own filter raises an error, or it records warnings.
    Filters around the whole call are not the program's: each replay runs under those of its time.
    """
    own = _levels()
    if not any(level.filters or level.records for level in own):
        return False
    found = action()
    return found == "error" or (found != "ignore" and any(level.records for level in own))


def _level(context: Any, new: bool) -> Filtering:
    """Return the program's innermost warning context; a new one if it enters `context`."""
    running.filtering = _levels()
    if new or not running.filtering:
        running.filtering.append(Filtering(running.open[0], context))
    return running.filtering[-1]


def _tell() -> None:
    for tracer in running.tracers:
        tracer.strictly(settings(), silenced())


@constructs(warnings.catch_warnings.__enter__, interposed=True)
def _enter(tracer: Any, fn: Any, context: Any) -> Any:
    level = _level(context, new=True)
    entered = fn(context)
    level.records = entered is not None
    _tell()
    return entered


@constructs(warnings.catch_warnings.__exit__, interposed=True)
def _exit(tracer: Any, fn: Any, context: Any, *error: Any) -> None:
    default = getattr(warnings, "_showwarning_orig", warnings.showwarning)
    if warnings.showwarning not in (context._showwarning, default):
        unrepeatable("it replaces warnings.showwarning")
    fn(context, *error)
    running.filtering = [level for level in running.filtering if level.context is not context]
    _tell()


@constructs(warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings, interposed=True)
def _filter(tracer: Any, fn: Any, *args: Any, **kwargs: Any) -> None:
    fn(*args, **kwargs)
    _level(None, new=False).filters = True
    _tell()
