"""autocast: calls inside `torch.autocast` are recorded whole, with the dtypes that torch computes in.

torch's C++ tables, below the level that a tape sees, decide what is cast. So a call is one operation that enters the
state of autocast itself, and its gradient is torch's own. Functions that only move or make numbers cast nothing and are
recorded as usual.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch

from tapegrad.errors import UnknownFunction, user_location
from tapegrad.rules.registry import DISPATCH
from tapegrad.trace.guards import add_surroundings
from tapegrad.trace.recorder import TRACE_HOOKS, Tracer

ENABLED = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)  # on any device
_DEVICES = ("cpu", "cuda")
_HERE = __name__.rpartition(".")[0]
_MOVING = frozenset(f"{_HERE}.{name}"
                    for name in ("arrange", "create", "facts", "index", "leaves", "random", "shape", "write"))
_COMPUTING = frozenset(f"{_HERE}.{name}"
                       for name in ("common", "elementwise", "linalg", "mixed", "reduce", "statistics"))
AROUND: dict[int, bool] = {}  # level of a running tracer → whether its trace began inside autocast
_AS_IT_IS = nullcontext()
State = tuple[tuple[str, torch.dtype], ...]


def state() -> State | None:
    """Return the devices for which autocast is on, each with its dtype; None if it is off."""
    if not ENABLED():
        return None
    return tuple([(device, torch.get_autocast_dtype(device)) for device in _DEVICES
                  if torch.is_autocast_enabled(device)])


def off() -> AbstractContextManager[Any]:
    """Return a context in which autocast is off on all devices."""
    if not ENABLED():
        return _AS_IT_IS
    stack = ExitStack()
    for device, dtype in state() or ():
        stack.enter_context(torch.autocast(device, dtype, enabled=False))
    return stack


@functools.cache
def under(func: Callable[..., Any], now: State) -> Callable[..., Any]:
    """Return a function that calls `func` in a state of autocast."""
    def run(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            for device, dtype in now:
                stack.enter_context(torch.autocast(device, dtype))
            return func(*args, **kwargs)
    run.__name__, run.__module__ = func.__name__, "torch"
    return run


def casting(tracer: Tracer, func: Callable[..., Any], writes: bool) -> Callable[..., Any] | None:
    """Return the function to record whole for a call inside autocast; None if it casts nothing. Raises UnknownFunction
    if the trace began inside autocast, or if the function calls others.
    """
    meaning = DISPATCH.get(func)
    module = "" if meaning is None else getattr(meaning, "__module__", _HERE)
    if writes or module in _MOVING:
        return None
    now = state()
    if AROUND[tracer.level] or not now or not (module == "" or module in _COMPUTING
                                               or module.startswith((f"{_HERE}.nn", "tapegrad.ops"))):
        raise UnknownFunction("torch.autocast around a traced call changes dtypes outside the tape: a replay and the "
                              "gradient would compute in other dtypes", user_location(),
                              "put `with torch.autocast(...):` inside the differentiated function, around its "
                              "operations")
    return under(func, now)


def listen(tracer: Tracer) -> Callable[[], None]:
    """Note whether a trace begins inside autocast; return a function that ends it."""
    AROUND[tracer.level] = bool(ENABLED())

    def end() -> None:
        del AROUND[tracer.level]
    return end


TRACE_HOOKS.append(listen)
add_surroundings(state)  # a tape is used only in the state that it was recorded in
