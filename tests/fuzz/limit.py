"""limit: a program may not end, whole or cut; here it is ended."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType


class Hang(BaseException):
    """A program takes too long: no Exception, which the program may catch."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Hang after a time; an outer limit holds as well."""
    def late(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)  # again, where a `finally` or a bare `except` has gone on
        raise Hang
    before, begun = signal.signal(signal.SIGALRM, late), time.monotonic()
    left = signal.setitimer(signal.ITIMER_REAL, seconds)[0]
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, left - (time.monotonic() - begun)) if left else 0.0)
