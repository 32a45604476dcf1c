"""np.errstate in a traced function: where it turns a warning into an error, each call is guarded, so that a replay
notices one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import _linalg

from tapegrad.frontends.warning_filters import settings, silenced
from tapegrad.rules.registry import constructs, refused
from tapegrad.trace.numpy_warnings import meant, told
from tapegrad.trace.observers import unrepeatable
from tapegrad.tree.copies import running


class Settings(contextlib.ContextDecorator):
    """The context of `np.errstate`, which informs the running traces of its settings."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.before: list[tuple[Any, dict[str, str], frozenset[str]]] = []  # each trace's previous settings

    def __enter__(self) -> Any:
        entered = self.state.__enter__()
        self.before = [(tracer, dict(tracer.settings), tracer.silenced) for tracer in running.tracers]
        for tracer in running.tracers:
            tracer.strictly(settings(), silenced())
        return entered

    def __exit__(self, *error: Any) -> None:
        self.state.__exit__(*error)
        for tracer, before, silent in self.before:
            tracer.strictly(before, silent)


@constructs(np.errstate)
def errstate(tracer: Any, fn: Any, **given: Any) -> Any:
    given = _raising(given)
    _refuse_calls(given.values())
    return Settings(fn(**meant(given)))


def _raising(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those by which NumPy's functions raise LinAlgError: the ops raise it themselves."""
    call: Any = settings.get("call")
    if getattr(call, "__module__", None) != _linalg.__name__ or not call.__name__.startswith("_raise_linalgerror"):
        return settings
    return {kind: "ignore" if how == "call" else how for kind, how in settings.items() if kind != "call"}


def _refuse_calls(values: Any) -> None:
    if any(value in ("call", "log") for value in values if type(value) is str):
        raise refused("np.errstate or np.seterr with a callback", "a replay would not call it",
                      "test the result with np.isfinite, or use np.errstate(...='raise') with try")


@constructs(np.seterr)
def seterr(tracer: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
    _refuse_calls((*args, *kwargs.values()))
    before = told(fn(**meant({**dict(zip(("all", "divide", "over", "under", "invalid"), args)), **kwargs})))
    for each in running.tracers:
        each.strictly(settings(), silenced())
        each.modes = each.modes or before
    return before


@constructs(np.geterr)
def geterr(tracer: Any, fn: Callable[..., Any]) -> Any:
    unrepeatable("it reads np.geterr(), whose value is not recorded")
    return told(fn())
