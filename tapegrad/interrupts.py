"""interrupts: Ctrl-C does not arrive while something is replaced or put back, but a moment later."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import threading
from _thread import get_ident, interrupt_main
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

MOMENT = 0.001  # seconds
_whole: set[CodeType] = set()
_depth = [0]


def whole(fn: F) -> F:
    """Have no interrupt arrive in a function, nor in what it calls."""
    _whole.add(fn.__code__)  # type: ignore[attr-defined]
    return fn


@whole
def begin() -> None:
    """Have interrupts wait for functions that are `whole`, but where a program handles them itself; call `end` later.
    """
    if get_ident() == _main:  # no other thread is interrupted
        _depth[0] += 1
        if _get(_NUMBER) is _usual:
            _set(_NUMBER, _handle)


@whole
def end() -> None:
    """End what `begin` has begun."""
    if get_ident() == _main:
        _depth[0] -= 1
        if not _depth[0] and _get(_NUMBER) is _handle:
            _set(_NUMBER, _usual)


def _handle(number: int, frame: FrameType | None) -> None:
    at = frame
    while at is not None and at.f_code not in _whole:
        at = at.f_back
    if at is None:
        _usual(number, frame)
    timer = threading.Timer(MOMENT, interrupt_main)
    timer.daemon = True
    timer.start()


# signal's own functions make enumerations of what they return, which takes longer
_get, _set, _usual, _NUMBER, _main = (_signal.getsignal, _signal.signal, _signal.default_int_handler, _signal.SIGINT,
                                      threading.main_thread().ident)
