"""interrupts: delays Ctrl-C while names are being replaced or restored."""

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
    """Mark a function as not interruptible, together with the functions that it calls."""
    _whole.add(fn.__code__)  # type: ignore[attr-defined]
    return fn


@whole
def begin() -> None:
    """Delay interrupts in `whole` functions until `end`, unless the program has its own handler."""
    if get_ident() == _main:  # only the main thread receives interrupts
        _depth[0] += 1
        if _get(_NUMBER) is _usual:
            _set(_NUMBER, _handle)


@whole
def end() -> None:
    """Undo the matching `begin`."""
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


# the C functions, since signal's own convert results to enums, which takes longer
_get, _set, _usual, _NUMBER, _main = (_signal.getsignal, _signal.signal, _signal.default_int_handler, _signal.SIGINT,
                                      threading.main_thread().ident)
