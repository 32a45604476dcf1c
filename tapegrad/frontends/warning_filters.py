"""warnings in a traced function: where its filters make errors of NumPy's warnings, or it records them, each call
there is guarded, so that a replay notices where another warning would come.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tapegrad.rules.registry import constructs
from tapegrad.trace.numpy_warnings import told
from tapegrad.trace.observers import unrepeatable
from tapegrad.tree.copies import running


def settings() -> dict[str, str]:
    """Return how NumPy treats floating-point errors, and whether its warnings steer the program."""
    modes = told(np.geterr())
    return {**modes, "warnings": "raise"} if _are_seen() else modes


def _are_seen() -> bool:
    """Return whether the program can tell that NumPy warned: a filter makes an error of it, or it is recorded."""
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return True
            if message is None and module is None and line == 0:
                return action != "ignore" and bool(running.recording)
    return bool(running.recording)


def _tell() -> None:
    for tracer in running.tracers:
        tracer.strictly(settings())


@constructs(warnings.catch_warnings.__enter__, interposed=True)
def _enter(tracer: Any, fn: Any, context: Any) -> Any:
    entered = fn(context)
    if entered is not None:
        running.recording.append(context)
    _tell()
    return entered


@constructs(warnings.catch_warnings.__exit__, interposed=True)
def _exit(tracer: Any, fn: Any, context: Any, *error: Any) -> None:
    default = getattr(warnings, "_showwarning_orig", warnings.showwarning)
    if warnings.showwarning not in (context._showwarning, default):
        unrepeatable("it has warnings shown by a function of its own")
    fn(context, *error)
    running.recording = [other for other in running.recording if other is not context]
    _tell()


@constructs(warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings, interposed=True)
def _filter(tracer: Any, fn: Any, *args: Any, **kwargs: Any) -> None:
    fn(*args, **kwargs)
    _tell()
