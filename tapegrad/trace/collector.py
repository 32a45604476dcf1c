"""collector: pauses Python's cyclic garbage collector while tapes are made."""

from __future__ import annotations

import gc
import threading

from tapegrad.interrupts import begin, end, whole


class _Collector:
    """Pauses Python's cyclic garbage collector while any trace runs.

    A trace allocates and frees nothing, and full collections walk the growing tape again and again, which more than
    doubled the time per operation at 10^5 operations. Interrupts are deferred for the same time, so that replacements
    are complete.
    """

    def __init__(self) -> None:
        self.lock, self.depth, self.was_enabled = threading.Lock(), 0, False

    @whole
    def __enter__(self) -> None:
        begin()
        with self.lock:
            if self.depth == 0:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.depth += 1

    @whole
    def __exit__(self, *exc: object) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0 and self.was_enabled:
                gc.enable()
        end()


collector = _Collector()
